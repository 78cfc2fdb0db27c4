/** Finds the last event of a repository, an organization or a user up to a moment. */
import { LRUCache } from 'lru-cache'
import { modelStopped, Refused } from '../../../errors/refusal.ts'
import { LOG_START, type Position } from '../../../events/store/event-store.ts'
import { organizationStream, userStream } from '../../../events/streams.ts'
import type { HistoryDocument } from '../../../projections/models/history/history.fold.ts'
import type { Sort } from '../../../projections/store/read-store.ts'
import type { Views } from '../../../projections/views/views.ts'
import type { MomentPoint, Moments, Subject, WantedMoment } from '../../../services/moment.ts'
import type { HistoryServices } from '../../../services/services.ts'
import { lastRevision } from '../replay/last-revision.ts'

type Resolved = Awaited<ReturnType<Moments['resolve']>>

/** Number of events after the found one that are checked, too, because clocks of servers differ. */
const DISORDER = 100
const OLDEST: Sort<HistoryDocument> = [['position', 1]]
/** Answers that cannot change any more, because the subject has a later event. */
const MAX_KNOWN = 10_000
/** A node whose clock is slow may still append an event with an earlier time. */
const KNOWN_MS = 10_000

/** Creates the function `resolve` of `Moments`. `views` are present ones. */
export function createResolve(
  services: HistoryServices & { views: Pick<Views, 'history' | 'linkedEvents'> },
): Moments['resolve'] {
  const { events, views } = services
  const known = new LRUCache<string, NonNullable<Resolved>>({ max: MAX_KNOWN, ttl: KNOWN_MS })

  async function ofRepository(repoId: number, wanted: WantedMoment): Promise<Resolved> {
    // The events that a moment is made of are found by both.
    if (views.history.hasStopped() || views.linkedEvents.hasStopped()) {
      throw new Refused(modelStopped('the read model of the history has stopped, so moments cannot be found'))
    }
    const includes =
      'at' in wanted
        ? ({ at }: HistoryDocument) => at <= Date.parse(wanted.at)
        : ({ position }: HistoryDocument) => position <= wanted.position
    const after = (position: Position, limit: number) =>
      views.history.find({ repoId, position: { $gt: position } }, { sort: OLDEST, limit })

    let last: HistoryDocument | undefined
    let from = LOG_START
    let to = await events.lastPosition()
    // Each step reads one document by an index: no index has times.
    while (from < to) {
      const middle = from + Math.floor((to - from) / 2)
      const [next] = await after(middle, 1)
      if (next !== undefined && includes(next)) {
        last = next
        from = next.position
      } else to = middle
    }
    if (last === undefined) return undefined
    for (;;) {
      const later = await after(last.position, DISORDER)
      const included = later.findLast(includes)
      if (included === undefined) return { ...pointOf(last), isNow: later.length === 0 }
      last = included
    }
  }

  async function ofAccount({ kind, id }: Subject, wanted: WantedMoment): Promise<Resolved> {
    const stream = (kind === 'user' ? userStream : organizationStream)(id)
    const revision = await lastRevision(services, stream, wanted)
    const [event, later] = await Array.fromAsync(
      events.readStream(stream, { from: Math.max(0, revision), maxCount: 2 }),
    )
    if (revision < 0 || event === undefined) return undefined
    return { position: event.position, at: event.metadata.at, isNow: later === undefined }
  }

  return async (subject, wanted) => {
    const key = JSON.stringify([subject.kind, subject.id, wanted])
    const before = known.get(key)
    if (before !== undefined) return before
    const found = await (subject.kind === 'repository'
      ? ofRepository(subject.id, wanted)
      : ofAccount(subject, wanted))
    if (found !== undefined && !found.isNow) known.set(key, found)
    return found
  }
}

const pointOf = ({ position, at }: HistoryDocument): MomentPoint => ({
  position,
  at: new Date(at).toISOString(),
})
