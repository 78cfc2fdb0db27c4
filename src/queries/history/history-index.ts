/** The history of a repository or of the server. The read model finds the events; the log contains them. */
import { nextSlice } from '../../concurrency/event-loop.ts'
import { LOG_START, type Position } from '../../events/store/event-store.ts'
import {
  type HistoryDocument,
  isForAdmins,
  mayBeForAdmins,
} from '../../projections/models/history/history.fold.ts'
import type { Filter, Sort } from '../../projections/store/read-store.ts'
import type { Views } from '../../projections/views/views.ts'
import type { Services } from '../../services/services.ts'
import { type HistoryFilter, matchesFilter } from './history-filter.ts'
import type { History } from './history-source.ts'

type Slice = Parameters<History['page']>[1]
/** A filter that an index can answer. */
type Selection = Filter<HistoryDocument>

const OLDEST: Sort<HistoryDocument> = [['position', 1]]
/** Number of documents read per iteration of the event loop. */
const CHUNK = 500

/** Returns the history of a repository; with `repoId` undefined, that of the server: all events. */
export function indexedHistory(
  services: Pick<Services, 'events'> & { views: Pick<Views, 'history'> },
  repoId?: number,
): History {
  const { events, views } = services

  /** Returns selections that each contain all matching events. The server's history has only the index of positions. */
  function selections({ types, actor, adminsOnly }: HistoryFilter): Selection[] {
    if (repoId === undefined) return [{}]
    const visible = adminsOnly === undefined ? {} : { adminsOnly }
    const [type, ...others] = types ?? []
    const narrow: Selection[] = [
      ...(type !== undefined && others.length === 0 ? [{ repoId, type }] : []),
      ...(actor === undefined ? [] : [{ repoId, actor, ...visible }]),
    ]
    return narrow.length > 0 ? narrow : [{ repoId, ...visible }]
  }

  /** Returns the selection with the fewest documents. */
  async function narrowest(filter: HistoryFilter): Promise<Selection> {
    const [first = {}, ...others] = selections(filter)
    if (others.length === 0) return first
    const counts = await Promise.all([first, ...others].map((selection) => views.history.count(selection)))
    return [first, ...others][counts.indexOf(Math.min(...counts))] ?? first
  }

  async function* documents(selection: Selection, after: Position): AsyncGenerator<HistoryDocument[]> {
    let last = after
    for (;;) {
      const later = { ...selection, position: { $gt: last } }
      const found = await views.history.find(later, { sort: OLDEST, limit: CHUNK })
      if (found.length > 0) yield found
      if (found.length < CHUNK) return
      last = found.at(-1)?.position ?? last
      // An embedded store answers synchronously, so yield to other requests.
      await nextSlice()
    }
  }

  async function* read(filter: HistoryFilter, after: Position, upTo = Number.MAX_SAFE_INTEGER) {
    for await (const found of documents(await narrowest(filter), Math.max(after, LOG_START))) {
      const wanted = found.filter((each) => each.position <= upTo && matchesFilter(filter, each))
      yield* events.readPositions(wanted.map(({ position }) => position))
      if ((found.at(-1)?.position ?? upTo) >= upTo) return
    }
  }

  async function indexedPage(selection: Selection, { skip, limit }: Slice) {
    const total = await views.history.count(selection)
    if (skip >= total) return { positions: [], total }
    const found = await views.history.find(selection, { sort: OLDEST, skip, limit })
    return { positions: found.map(({ position }) => position), total }
  }

  async function scannedPage(
    selection: Selection,
    filter: HistoryFilter,
    { skip, limit }: Slice,
    signal: AbortSignal,
  ) {
    const positions: Position[] = []
    let total = 0
    for await (const found of documents(selection, LOG_START)) {
      if (signal.aborted) break
      for (const { position } of found.filter((document) => matchesFilter(filter, document))) {
        if (total >= skip && positions.length < limit) positions.push(position)
        total += 1
      }
    }
    return { positions, total }
  }

  return {
    id: 'position',
    topic: repoId === undefined ? 'server' : `repository ${repoId}`,
    has: (live) => repoId === undefined || live.repoId === repoId,
    last: () => events.lastPosition(),
    read,
    async page(requested, slice, signal) {
      const filter = withVisibleTypes(requested)
      if (filter.types?.size === 0) return { events: [], total: 0 }
      const selection = await narrowest(filter)
      const { positions, total } = isExactly(filter, selection)
        ? await indexedPage(selection, slice)
        : await scannedPage(selection, filter, slice, signal)
      const page = await Array.fromAsync(events.readPositions(positions))
      return { events: page, total }
    },
  }
}

/** Whether a selection has exactly the matching events, given that it has all of them. */
function isExactly(
  { types, actor, since, before, adminsOnly, issueWords }: HistoryFilter,
  selection: Selection,
): boolean {
  return (
    (types === undefined || 'type' in selection) &&
    (actor === undefined || 'actor' in selection) &&
    // The index of types has drafts of releases, too.
    (adminsOnly === undefined || 'adminsOnly' in selection || ![...(types ?? [])].some(mayBeForAdmins)) &&
    since === undefined &&
    before === undefined &&
    // Few tokens need this filter, so it has no index.
    issueWords === undefined
  )
}

/** Removes types that the requester may not see, so that the index of types finds no such events. */
function withVisibleTypes(filter: HistoryFilter): HistoryFilter {
  const { types, adminsOnly } = filter
  if (types === undefined || adminsOnly === undefined) return filter
  return { ...filter, types: new Set([...types].filter((type) => !isForAdmins(type))) }
}
