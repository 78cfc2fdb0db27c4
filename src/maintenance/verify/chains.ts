/** Checks the hash chains of all streams, event by event in the order of the log. */

import { isKnownType } from '../../events/codec.ts'
import { chainProblem, endAfter, hashOf, STREAM_START, type StreamEnd } from '../../events/store/chain.ts'
import type { PassedOver } from '../../events/store/damage.ts'
import { LOG_START, type Position, type RecordedEvent } from '../../events/store/event-store.ts'
import type { LogProblem } from '../../events/store/sqlite/check.ts'
import { isStreamName } from '../../events/streams.ts'

export interface Chains {
  /** Checks the next event of the log. Returns its problem; undefined for a sound event. */
  next(event: RecordedEvent): LogProblem | undefined
  /** Records an event that the store cannot read. Returns the problem when it was certainly one of ours. */
  passedOver(event: PassedOver): LogProblem | undefined
  /** The position of the last checked event. All events up to it are sound. */
  position(): Position
  /** The number of sound events, and of streams. */
  counts(): { events: number; streams: number }
  /**
   * Foreign events in our streams, and events like ours in foreign streams, at most 100. They are skipped by the hash
   * chain.
   */
  others(): readonly { stream: string; revision: number }[]
  /** Last events of streams that may be damaged or foreign. */
  doubtful(): readonly LogProblem[]
  /** Our first and last revision of each stream. `recreated`: its first revision after a deletion. */
  streams(): Iterable<{ stream: string; first: number; last: number; recreated?: number }>
}

/** Maximum number of reported revisions of other applications. */
const MAX_OTHERS = 100

/**
 * Keeps the end of each stream in memory: about 300 bytes per stream, 300 MB for a million. Positions have
 * gaps in EventStoreDB, but not in the embedded log.
 */
export function createChains({ hasGaps = true }: { hasGaps?: boolean } = {}): Chains {
  const ends = new Map<string, End>()
  let position: Position = LOG_START
  let events = 0
  const others = new Map<string, { stream: string; revision: number }>()
  /** First event of each stream where only the type is ours: the next event shows whether it was ours. */
  const doubtful = new Map<string, LogProblem>()

  function noteOther(stream: string, revision: number): void {
    if (others.size < MAX_OTHERS) others.set(`${stream}@${revision}`, { stream, revision })
  }

  /** The end of the event's stream before it. Passes over revisions that another application wrote. */
  function endBefore(event: RecordedEvent): End {
    const { stream, revision, metadata } = event
    const end = ends.get(stream) ?? { ...STREAM_START, first: revision }
    if (!hasGaps) return end
    if (revision > 0 && isFirstAgain(event)) {
      return {
        ...STREAM_START,
        revision: revision - 1,
        first: end.first,
        recreated: revision,
      }
    }
    if (revision <= end.revision + 1 || metadata.previous !== end.hash) return end
    for (let other = end.revision + 1; other < revision && others.size < MAX_OTHERS; other++) {
      noteOther(stream, other)
    }
    return { ...end, revision: revision - 1 }
  }

  /** The problem of an event; a first append after a deletion is sound, too. */
  function problemOf(event: RecordedEvent, end: End): string | undefined {
    if (event.position <= position) return `it comes after position ${position}`
    const problem = chainProblem(event, end)
    if (problem === undefined || end.recreated === undefined) return problem
    const asWritten = { ...event, revision: event.revision - end.recreated }
    return chainProblem(asWritten, { ...end, revision: end.revision - end.recreated })
  }

  return {
    next(event) {
      if (!hasGaps && event.position > position + 1) {
        return { problem: 'the event is missing', position: position + 1 }
      }
      const end = endBefore(event)
      const problem = problemOf(event, end)
      if (problem !== undefined) {
        const { stream, revision } = event
        return doubtful.get(stream) ?? { problem, position: event.position, stream, revision }
      }
      doubtful.delete(event.stream)
      ends.set(event.stream, {
        ...endAfter(event),
        first: end.first,
        ...(end.recreated !== undefined && { recreated: end.recreated }),
      })
      position = event.position
      events += 1
      return undefined
    },
    passedOver({ stream, revision, position, type, isDamaged }) {
      const location = { position, stream, revision }
      const isInUse = ends.has(stream)
      if (!isInUse && !isStreamName(stream)) {
        if (isDamaged || isKnownType(type)) noteOther(stream, revision)
        return undefined
      }
      if (isDamaged)
        return { problem: 'the event is damaged: it has our metadata, but cannot be read', ...location }
      if (!isInUse) return undefined
      if (!isKnownType(type)) noteOther(stream, revision)
      else if (!doubtful.has(stream)) {
        const problem = `the event is damaged, or another application wrote it: its type ${type} is ours, but it cannot be read`
        doubtful.set(stream, { problem, ...location })
      }
      return undefined
    },
    position: () => position,
    counts: () => ({ events, streams: ends.size }),
    others: () => [...others.values()],
    doubtful: () => [...doubtful.values()],
    *streams() {
      for (const [stream, { first, revision: last, recreated }] of ends) {
        yield { stream, first, last, ...(recreated !== undefined && { recreated }) }
      }
    },
  }
}

interface End extends StreamEnd {
  first: number
  /**
   * First revision of the stream after its deletion in EventStoreDB. To its writer the stream was new, so the event was
   * linked as revision 0.
   */
  recreated?: number
}

/** Whether the event was linked as the first of its stream. */
function isFirstAgain(event: RecordedEvent): boolean {
  const { previous, hash } = event.metadata
  return previous === null && hash !== undefined && hash === hashOf({ ...event, revision: 0 })
}
