/**
 * Appends to EventStoreDB in a chain. A hash needs the revision that its event will have and the hash of the
 * event before it, so every append names the revision that it follows; the server's check of that revision
 * then makes the chain exact, however many nodes write.
 *
 * Ends of streams are learned from what the server has, never from what was sent: a repeated append is
 * confirmed like the first, and what is stored may have been linked by another try.
 */

import { LRUCache } from 'lru-cache'
import { createTurns } from '../turns.ts'
import { lastHashOf, linkAll, STREAM_START, type StreamEnd } from './chain.ts'
import {
  type Appended,
  type EventStore,
  type NewEvent,
  type RecordedEvent,
  StoreUnavailable,
  WrongExpectedRevision,
} from './event-store.ts'

/** Streams whose end is remembered; some 150 bytes each. */
const ENDS = 10_000
/**
 * Of a stream that is written with any expected revision, so many of the last ids are known, that a repeated
 * append is noticed. The server's own check of such appends is bounded, too.
 */
const RECENT = 500
/** Ids that are remembered in all; some 100 bytes each. */
const RECENT_IDS = 100_000
/** So many times others may come first before an append with any expected revision gives up. */
const TRIES = 50

/** The end of a stream, and the revisions of the last events before it by their ids. */
interface Recent {
  end: StreamEnd
  revisions: ReadonlyMap<string, number>
}

export interface ChainWriter {
  readStream: EventStore['readStream']
  /** Appends linked events after exactly this revision. @throws WrongExpectedRevision */
  write(stream: string, events: readonly NewEvent[], expected: number | 'no-stream'): Promise<Appended>
  /** How long an append may wait for its turn, in milliseconds. */
  patience: number
}

export function createChainedAppend({ readStream, write, patience }: ChainWriter) {
  const ends = new LRUCache<string, StreamEnd>({ max: ENDS })
  const recents = new LRUCache<string, Recent>({
    maxSize: RECENT_IDS,
    sizeCalculation: ({ revisions }) => 1 + revisions.size,
  })
  /** One append to a stream after the other. */
  const inTurn = createTurns({
    timeoutMs: patience,
    timeoutError: (stream) => new StoreUnavailable(`stream ${stream} is written too slowly`),
  })

  /**
   * The end that an append after `revision` is linked to. One that is not there is refused here: the server
   * might have it by the time that it is asked, and the append would then be linked to nothing.
   */
  async function endAt(stream: string, revision: number): Promise<StreamEnd> {
    const known = ends.get(stream)
    if (known?.revision === revision) return known
    for await (const event of readStream(stream, { from: revision, maxCount: 1 })) {
      return { revision, hash: lastHashOf(event) }
    }
    for await (const last of readStream(stream, { direction: 'backwards', maxCount: 1 })) {
      throw new WrongExpectedRevision(stream, revision, last.revision)
    }
    throw new WrongExpectedRevision(stream, revision, null)
  }

  /** The stream's end and its last ids as they are now: what came since the last look, or the last of it. */
  async function recentOf(stream: string): Promise<Recent> {
    const known = recents.get(stream)
    let end = known?.end ?? STREAM_START
    const revisions = new Map(known?.revisions)
    const events =
      known === undefined ? await backwards(stream) : readStream(stream, { from: end.revision + 1 })
    for await (const event of events) {
      end = { revision: event.revision, hash: lastHashOf(event) }
      revisions.set(event.id, event.revision)
    }
    for (const id of revisions.keys()) {
      if (revisions.size <= RECENT) break
      revisions.delete(id)
    }
    const recent = { end, revisions }
    recents.set(stream, recent)
    return recent
  }

  async function backwards(stream: string): Promise<RecordedEvent[]> {
    const last: RecordedEvent[] = []
    const options = { direction: 'backwards', maxCount: RECENT } as const
    for await (const event of readStream(stream, options)) last.push(event)
    return last.reverse()
  }

  /** Where a repeated append stands already; undefined when none of its ids is known. */
  function repeated(
    stream: string,
    events: readonly NewEvent[],
    expected: 'any' | 'stream-exists',
    recent: Recent,
  ) {
    const places = events.map(({ id }) => recent.revisions.get(id))
    const first = places.find((place) => place !== undefined)
    if (first === undefined) return undefined
    if (places.every((place, i) => place === first + i)) return first + places.length - 1
    throw new WrongExpectedRevision(stream, expected, recent.end.revision)
  }

  return {
    /** What a read has come upon: mostly it is what the next append follows. */
    seen(event: RecordedEvent): void {
      const known = ends.peek(event.stream)
      if (known !== undefined && known.revision >= event.revision) return
      ends.set(event.stream, { revision: event.revision, hash: lastHashOf(event) })
    },

    /** Appends after one revision. @throws WrongExpectedRevision */
    appendAfter(
      stream: string,
      events: readonly NewEvent[],
      expected: number | 'no-stream',
    ): Promise<Appended> {
      return inTurn(stream, async () => {
        const end = expected === 'no-stream' ? STREAM_START : await endAt(stream, expected)
        return write(stream, linkAll(stream, end, events), expected)
      })
    },

    /** Appends wherever the stream ends. @throws WrongExpectedRevision where it must exist and does not */
    appendAnywhere(
      stream: string,
      events: readonly NewEvent[],
      expected: 'any' | 'stream-exists',
    ): Promise<Appended> {
      return inTurn(stream, async () => {
        for (let tries = 0; tries < TRIES; tries++) {
          const recent = await recentOf(stream)
          const { end } = recent
          const revision = repeated(stream, events, expected, recent)
          if (revision !== undefined) {
            for await (const { position } of readStream(stream, { from: revision, maxCount: 1 })) {
              return { revision, position }
            }
          }
          if (end.revision < 0 && expected === 'stream-exists') {
            throw new WrongExpectedRevision(stream, expected, null)
          }
          try {
            const linked = linkAll(stream, end, events)
            return await write(stream, linked, end.revision < 0 ? 'no-stream' : end.revision)
          } catch (error) {
            if (!(error instanceof WrongExpectedRevision)) throw error
            // Another node came first, or an id stands too far back to be known here.
            if (error.actual === end.revision) throw new WrongExpectedRevision(stream, expected, error.actual)
          }
        }
        throw new StoreUnavailable(`stream ${stream} is written by too many at once`)
      })
    },
  }
}
