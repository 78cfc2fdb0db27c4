/**
 * Appends events to EventStoreDB and links them to the hash chain of their stream. The hash of an event covers its
 * revision and the hash of the event before it. So every append names the revision that it follows. The server checks
 * that revision, which keeps the chain correct when several nodes write. The server confirms a repeated append like the
 * first one, and the stored events may come from an earlier try with other hashes. So only read events show the end of
 * a stream, and sent events without an earlier attempt: with random ids that this process has not sent before.
 */
import { setTimeout } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { createKeyedMutex } from '../../../concurrency/keyed-mutex.ts'
import { endAfter, linkAll, STREAM_START, type StreamEnd } from '../chain.ts'
import {
  type Appended,
  type EventStore,
  type EventText,
  type NewEvent,
  type RecordedEvent,
  StoreUnavailable,
  TooManyWriters,
  WrongExpectedRevision,
} from '../event-store.ts'

/** Number of cached stream ends, of about 150 bytes each. */
const ENDS = 10_000
/**
 * Number of cached event ids per stream, to detect repeated appends with any expected revision. The server's own check
 * of such appends is limited, too.
 */
const RECENT = 500
/** Number of cached event ids of all streams together, of about 100 bytes each. */
const RECENT_IDS = 100_000
/** Number of cached sent ids, of about 100 bytes each. Only retries repeat ids, soon after the first attempt. */
const SENT_IDS = 50_000
/** Maximum number of attempts of an append with any expected revision, against other writers. */
const MAX_ATTEMPTS = 50

/** The end of a stream, and the revisions of its last events by their ids. */
interface Recent {
  end: StreamEnd
  revisions: ReadonlyMap<string, number>
}

export interface ChainWriter {
  readStream: EventStore['readStream']
  /** Appends linked events after exactly this revision. @throws WrongExpectedRevision when the stream ends elsewhere */
  write(stream: string, events: readonly EventText[], expected: number | 'no-stream'): Promise<Appended>
  /**
   * Returns whether a stream has none of Mergelog's events at these revisions, and the number of other applications'
   * events.
   */
  others(stream: string, from: number, to: number): Promise<{ onlyOthers: boolean; count: number }>
  /**
   * Returns the revision before which all events of a stream were deleted; infinite for a deleted stream. `isEmpty`:
   * the stream shows no event, so its limits may have deleted any number.
   */
  deletedBefore(stream: string, isEmpty: boolean): Promise<number>
  /** Maximum waiting time of an append for the stream's lock, in milliseconds. */
  lockTimeoutMs: number
}

export function createChainedAppend({
  readStream,
  write,
  others,
  deletedBefore,
  lockTimeoutMs,
}: ChainWriter) {
  const ends = new LRUCache<string, StreamEnd>({ max: ENDS })
  const recents = new LRUCache<string, Recent>({
    maxSize: RECENT_IDS,
    sizeCalculation: ({ revisions }) => 1 + revisions.size,
  })
  /** The sent random ids, which may be in the log even if the append failed. */
  const sent = new LRUCache<string, true>({ max: SENT_IDS })
  /** Runs the appends to one stream one after another. */
  const runExclusive = createKeyedMutex({
    timeoutMs: lockTimeoutMs,
    timeoutError: (stream) => new StoreUnavailable(`stream ${stream} is written too slowly`),
  })

  /**
   * Finds the end that an append after `revision` is linked to.
   * @throws WrongExpectedRevision when the stream lacks that revision. Leaving this to the server would be unsafe: it
   * might reach the revision meanwhile, and accept an append with a wrong link
   */
  async function endAt(stream: string, revision: number): Promise<StreamEnd> {
    const known = ends.get(stream)
    if (known?.revision === revision) return known
    for await (const event of readStream(stream, { from: revision, maxCount: 1 })) {
      if (event.revision === revision) return endAfter(event)
    }
    for await (const last of readStream(stream, { direction: 'backwards', maxCount: 1 })) {
      throw new WrongExpectedRevision(stream, revision, last.revision)
    }
    throw new WrongExpectedRevision(stream, revision, null)
  }

  /** Returns the cached end of the stream, or reads it. */
  async function lastEnd(stream: string): Promise<StreamEnd> {
    const known = ends.get(stream)
    if (known !== undefined) return known
    for await (const last of readStream(stream, { direction: 'backwards', maxCount: 1 })) {
      return endAfter(last)
    }
    return STREAM_START
  }

  /** Whether an earlier attempt to append these events is impossible. */
  const areNew = (events: readonly NewEvent[]) => events.every(({ id }) => isRandom(id) && !sent.has(id))

  /** Appends after our last event. If the events are new, the last one becomes the cached end of the stream. */
  async function writeAfter(
    stream: string,
    end: StreamEnd,
    events: readonly NewEvent[],
    isNew: boolean,
    mayLack = false,
  ): Promise<Appended> {
    for (const { id } of events) if (isRandom(id)) sent.set(id, true)
    try {
      const { appended, hash } = await writePastOthers(stream, end, events, mayLack)
      if (isNew) ends.set(stream, { revision: appended.revision, hash })
      return appended
    } catch (error) {
      // Another node was first, or the events are in the log although the append failed.
      ends.delete(stream)
      throw error
    }
  }

  /**
   * Links the events to the last event and writes them. Events of other applications may follow it in the stream: they
   * are skipped, and the chain continues after them. `mayLack`: also when later events of Mergelog were deleted and
   * cannot be read. An unreadable event may also be a new one: accepted events become readable some milliseconds later.
   * Resolves to the place and the hash of the last event.
   */
  async function writePastOthers(
    stream: string,
    end: StreamEnd,
    events: readonly NewEvent[],
    mayLack: boolean,
  ): Promise<{ appended: Appended; hash: string | null }> {
    const writeAt = async (at: StreamEnd) => {
      const linked = linkAll(stream, at, events)
      const appended = await write(stream, linked, at.revision < 0 ? 'no-stream' : at.revision)
      return { appended, hash: linked.at(-1)?.hash ?? null }
    }
    try {
      return await writeAt(end)
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error
      const { actual } = error
      if (actual === null || actual <= end.revision) throw error
      const { onlyOthers, count } = await others(stream, end.revision + 1, actual)
      if (!onlyOthers) throw error
      const lacks = count < actual - end.revision
      const first = lacks && mayLack ? await deletedBefore(stream, end.revision < 0) : 0
      if (count < actual - Math.max(end.revision, first - 1)) throw error
      return writeAt({ revision: actual, hash: end.hash })
    }
  }

  /** Returns the end of the stream, and the place of the events if they were appended before. */
  async function repeatedIn(
    stream: string,
    events: readonly NewEvent[],
    expected: 'any' | 'stream-exists',
  ): Promise<{ end: StreamEnd; before?: Appended }> {
    const recent = await recentOf(stream)
    const { end } = recent
    const revision = repeated(stream, events, expected, recent)
    if (revision === undefined) return { end }
    for await (const { position } of readStream(stream, { from: revision, maxCount: 1 })) {
      return { end, before: { revision, position } }
    }
    return { end }
  }

  /** Reads the stream's end and last ids: only new events for a cached stream, else its last events. */
  async function recentOf(stream: string): Promise<Recent> {
    const known = recents.get(stream)
    const isNear = known !== undefined && (ends.peek(stream)?.revision ?? -1) - known.end.revision <= RECENT
    let end = isNear ? known.end : STREAM_START
    const revisions = new Map(isNear ? known.revisions : [])
    const events = isNear ? readStream(stream, { from: end.revision + 1 }) : await lastEvents(stream)
    for await (const event of events) {
      end = endAfter(event)
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
    const options = { direction: 'backwards', maxCount: RECENT } as const
    return (await Array.fromAsync(readStream(stream, options))).reverse()
  }

  /** Returns the last revision of an append that is already in the stream; undefined when its ids are unknown. */
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
    /** Caches the end of a read stream, because an append usually follows. */
    seen,

    /** Learns the ends of streams with several writers from a subscription. Other streams are not cached. */
    followed(event: RecordedEvent): void {
      if (ends.has(event.stream)) seen(event)
    },

    /** Appends after the given revision. @throws WrongExpectedRevision when the stream is not at it */
    appendAfter(
      stream: string,
      events: readonly NewEvent[],
      expected: number | 'no-stream',
    ): Promise<Appended> {
      return runExclusive(stream, async () => {
        const end = expected === 'no-stream' ? STREAM_START : await endAt(stream, expected)
        return writeAfter(stream, end, events, areNew(events))
      })
    },

    /** Appends to the end of the stream. @throws WrongExpectedRevision when it must exist and does not */
    appendAnywhere(
      stream: string,
      events: readonly NewEvent[],
      expected: 'any' | 'stream-exists',
    ): Promise<Appended> {
      return runExclusive(stream, async () => {
        const isNew = areNew(events)
        for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
          // Only new events are certainly not in the stream yet.
          const { end, before } = isNew
            ? { end: await lastEnd(stream) }
            : await repeatedIn(stream, events, expected)
          if (before !== undefined) return before
          if (end.revision < 0 && expected === 'stream-exists') {
            throw new WrongExpectedRevision(stream, expected, null)
          }
          try {
            // After an end that was just read, only deleted events of Mergelog can follow.
            return await writeAfter(stream, end, events, isNew, !isNew || tries > 0)
          } catch (error) {
            if (!(error instanceof WrongExpectedRevision)) throw error
            // Another node was first: retry. Or an id is in the stream, but too far back for the cache.
            if (error.actual === end.revision) throw new WrongExpectedRevision(stream, expected, error.actual)
            // The other node's event may not be readable yet.
            if (tries > 0) await setTimeout(tries)
          }
        }
        throw new TooManyWriters(`stream ${stream} has too many concurrent writers`)
      })
    },
  }

  function seen(event: RecordedEvent): void {
    const known = ends.peek(event.stream)
    if (known !== undefined && known.revision >= event.revision) return
    ends.set(event.stream, endAfter(event))
  }
}

/**
 * Whether a UUID is random (version 4, or 7 with a time). Other ids derive from a request, which may be repeated at any
 * time.
 */
const isRandom = (id: string) => id[14] === '4' || id[14] === '7'
