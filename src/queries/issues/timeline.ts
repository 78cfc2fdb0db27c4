/** The timeline of an issue or pull request: `GET /repos/{owner}/{repo}/issues/{index}/timeline`. */

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { LRUCache } from 'lru-cache'
import { IssueParams, onIssue } from '../../api/issues/issues.ts'
import { isInTimeRange, TimeRangeQuery, timeRange } from '../../api/time-range.ts'
import { nextSlice } from '../../concurrency/event-loop.ts'
import { decode } from '../../events/codec.ts'
import { discussionStream } from '../../events/streams.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import type { IssueDocument } from '../../projections/models/issues/issues.fold.ts'
import { currentMoment } from '../../services/moment.ts'
import type { Services } from '../../services/services.ts'
import { filteredListSchema, pagedRows } from '../paged-list.ts'
import { referenceRows, withReferences } from './timeline-references.ts'
import { evolveTimeline, type TimelineRow } from './timeline-rows.ts'
import { TimelineWire, timelineWires } from './timeline-wire.ts'

interface Timeline {
  rows: ReadonlyMap<number, TimelineRow>
  /** Revision of the last event in the rows. */
  revision: number
  /** Number of erasures at the time of reading. After another one, the rows are read again. */
  erasures: number
}

/** Maximum number of cached rows, of about 200 bytes each. */
const MAX_ROWS = 100_000
/** Number of events folded per iteration of the event loop, in one or two milliseconds. */
const EVENTS_PER_SLICE = 250

/** Reads timelines. For a cached one, reads only new events. Aborts when the client disconnects. */
export function timelineReader({
  events,
}: Services): (issue: IssueDocument, gone: AbortSignal) => Promise<Timeline['rows']> {
  const known = new LRUCache<string, Timeline>({
    maxSize: MAX_ROWS,
    sizeCalculation: ({ rows }) => 1 + rows.size,
  })
  return async (issue, gone) => {
    const stream = discussionStream(issue)
    const moment = currentMoment()
    const key = moment === undefined ? stream : `${stream} ${moment.position}`
    const erasures = events.erasures?.() ?? 0
    const cached = known.get(key)
    const before = cached?.erasures === erasures ? cached : undefined
    let rows: Map<number, TimelineRow> | undefined
    let revision = before?.revision ?? -1
    for await (const recorded of events.readStream(stream, { from: revision + 1 })) {
      if (moment !== undefined && recorded.position > moment.position) break
      // A copy, because other requests may still use the cached rows.
      rows ??= new Map(before?.rows)
      evolveTimeline(rows, decode(recorded))
      revision = recorded.revision
      if (revision % EVENTS_PER_SLICE !== 0) continue
      await nextSlice()
      gone.throwIfAborted()
    }
    if (rows === undefined) return before?.rows ?? new Map()
    known.set(key, { rows, revision, erasures })
    return rows
  }
}

export function timelineRoutes(services: Services): FastifyPluginAsyncTypebox {
  const rowsOf = timelineReader(services)
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/issues/:index/timeline',
      {
        config: { scope: 'issue' },
        schema: { tags: ['issue'], params: IssueParams, ...filteredListSchema(TimelineWire, TimeRangeQuery) },
      },
      async (request, reply) => {
        const { repository, issue } = await onIssue(services, request, 'read')
        const range = timeRange(request.query)
        const [own, references] = await Promise.all([
          rowsOf(issue, disconnectSignal(reply)),
          referenceRows(services, issue, request.requester),
        ])
        const rows = withReferences([...own.values()], references)
        const wanted = rows.filter(({ updatedAt }) => isInTimeRange(range, updatedAt))
        const shown = pagedRows(services, request, reply, wanted)
        return timelineWires(services, repository, issue, shown, request.requester)
      },
    )
  }
}
