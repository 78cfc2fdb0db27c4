/**
 * Appends events to EventStoreDB and links them to the hash chain of their stream. The hash of an event covers its
 * revision and the hash of the event before it. So every append names the revision that it follows. The server checks
 * that revision, which keeps the chain correct when several nodes write.
 *
 * The end of a stream is learned only from events that were read, never from events that were sent: the server
 * confirms a repeated append like the first one, and the stored events may come from an earlier try with other hashes.
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

/** The number of streams whose end is remembered; about 150 bytes each. */
const ENDS = 10_000
/**
 * The number of last event ids that are known of a stream, to notice a repeated append with any expected revision. The
 * server's own check of such appends is limited, too.
 */
const RECENT = 500
/** The number of ids that are remembered for all streams together; about 100 bytes each. */
const RECENT_IDS = 100_000
/** An append with any expected revision gives up when another writer was first in this many tries. */
const MAX_TRIES = 50

/** The end of a stream, and the revisions of its last events by their ids. */
interface Recent {
  end: StreamEnd
  revisions: ReadonlyMap<string, number>
}

export interface ChainWriter {
  readStream: EventStore['readStream']
  /** Appends linked events after exactly this revision. @throws WrongExpectedRevision when the stream ends elsewhere */
  write(stream: string, events: readonly NewEvent[], expected: number | 'no-stream'): Promise<Appended>
  /** How long an append may wait for its turn, in milliseconds. */
  turnTimeoutMs: number
}

export function createChainedAppend({ readStream, write, turnTimeoutMs }: ChainWriter) {
  const ends = new LRUCache<string, StreamEnd>({ max: ENDS })
  const recents = new LRUCache<string, Recent>({
    maxSize: RECENT_IDS,
    sizeCalculation: ({ revisions }) => 1 + revisions.size,
  })
  /** Runs the appends to one stream one after another. */
  const inTurn = createTurns({
    timeoutMs: turnTimeoutMs,
    timeoutError: (stream) => new StoreUnavailable(`stream ${stream} is written too slowly`),
  })

  /**
   * Finds the end that an append after `revision` is linked to.
   * @throws WrongExpectedRevision when the stream lacks that revision. The server must not decide this: it might have
   *   the revision a moment later, and would then accept an append without a correct link
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

  /** Reads the stream's end and its last ids: only new events if the stream is known, else its last events. */
  async function recentOf(stream: string): Promise<Recent> {
    const known = recents.get(stream)
    let end = known?.end ?? STREAM_START
    const revisions = new Map(known?.revisions)
    const events =
      known === undefined ? await lastEvents(stream) : readStream(stream, { from: end.revision + 1 })
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

  async function lastEvents(stream: string): Promise<RecordedEvent[]> {
    const last: RecordedEvent[] = []
    const options = { direction: 'backwards', maxCount: RECENT } as const
    for await (const event of readStream(stream, options)) last.push(event)
    return last.reverse()
  }

  /** The last revision of an append that is already in the stream; undefined when none of its ids is known. */
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
    /** Remembers the end of a stream that was read: usually the next append follows it. */
    seen(event: RecordedEvent): void {
      const known = ends.peek(event.stream)
      if (known !== undefined && known.revision >= event.revision) return
      ends.set(event.stream, { revision: event.revision, hash: lastHashOf(event) })
    },

    /** Appends after the given revision. @throws WrongExpectedRevision when the stream is not at it */
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

    /** Appends to the end of the stream. @throws WrongExpectedRevision when it must exist and does not */
    appendAnywhere(
      stream: string,
      events: readonly NewEvent[],
      expected: 'any' | 'stream-exists',
    ): Promise<Appended> {
      return inTurn(stream, async () => {
        for (let tries = 0; tries < MAX_TRIES; tries++) {
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
            // Another node was first: try again. Or an id is in the stream, but too far back to be among the known
            // ones.
            if (error.actual === end.revision) throw new WrongExpectedRevision(stream, expected, error.actual)
          }
        }
        throw new StoreUnavailable(`stream ${stream} is written by too many clients at the same time`)
      })
    },
  }
}
