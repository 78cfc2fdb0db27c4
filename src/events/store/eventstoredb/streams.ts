/** Reads single streams of EventStoreDB: Mergelog's events, skipping those of other applications. */
import { type RecordedEvent as ServerEvent, StreamNotFoundError } from '@eventstore/db-client'
import { LRUCache } from 'lru-cache'
import { repairOfCut } from '../damage.ts'
import { type ReadStreamOptions, type RecordedEvent, StoreDenied, StreamUnusable } from '../event-store.ts'
import { type ReadLimits, readBatches, SERVER_PAGE } from './batches.ts'
import type { Client } from './client.ts'
import { isDamaged, MOST, toRecorded, toSafe } from './events.ts'

/** `seen` is called with the last event that a read has returned. */
export function createStreamReads(
  client: () => Client,
  reading: ReadLimits,
  seen: (last: RecordedEvent) => void,
) {
  /** The last known revision of another application's event in each of Mergelog's streams. */
  const others = new LRUCache<string, number>({ max: 100 })
  /** By stream: why it was unusable at the last access. */
  const unusable = new LRUCache<string, string>({ max: 100 })

  /** Runs an operation on a stream, and records whether the stream is usable. */
  async function recording<T>(stream: string, run: () => Promise<T>): Promise<T> {
    try {
      return await run()
    } catch (error) {
      if (error instanceof StreamUnusable) unusable.set(stream, error.message)
      throw error
    }
  }

  /** Reads the server's events of a stream, by all applications; none for a missing stream. */
  async function* readServerEvents(
    stream: string,
    direction: 'forwards' | 'backwards',
    from: number,
    maxCount: number,
  ): AsyncIterable<ServerEvent> {
    const open = () =>
      client().readStream(stream, {
        direction,
        fromRevision: from >= MOST ? 'end' : BigInt(Math.max(from, 0)),
        maxCount: Math.min(maxCount, MOST),
      })
    const limits = { ...reading, what: 'to read our streams' }
    try {
      for await (const batch of readBatches(open, (read) => read.cancel(), limits)) {
        for (const { event } of batch) if (event !== undefined) yield event
      }
    } catch (error) {
      if (!(error instanceof StreamNotFoundError)) throw error
    }
  }

  /**
   * Skips events of other applications. The hash chain shows whether an event of Mergelog is missing in their place or
   * before the first one: then the stream cannot be used, because its state would be wrong.
   */
  async function* readStream(stream: string, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    const { direction = 'forwards', maxCount = MOST } = options
    const step = direction === 'forwards' ? 1 : -1
    let next = options.from ?? (direction === 'forwards' ? 0 : MOST)
    let left = maxCount
    let last: RecordedEvent | undefined
    let before: RecordedEvent | undefined
    let passedOver: number | undefined
    let count = left
    const isFromStart = direction === 'forwards' && next <= 0
    try {
      while (left > 0 && next >= 0) {
        let read = 0
        for await (const event of readServerEvents(stream, direction, next, count)) {
          read += 1
          const revision = toSafe(event.revision, 'revision')
          next = revision + step
          const recorded = toRecorded(event)
          if (recorded === undefined) {
            if (isDamaged(event)) throw damaged(stream, revision)
            passedOver = revision
            if (revision > (others.get(stream) ?? -1)) others.set(stream, revision)
            continue
          }
          if (isFromStart && before === undefined) {
            requireWhole(recorded)
            unusable.delete(stream)
          }
          if (passedOver !== undefined && before !== undefined) requireLinked(before, recorded, passedOver)
          passedOver = undefined
          before = recorded
          if (last === undefined || last.revision < recorded.revision) last = recorded
          yield recorded
          left -= 1
          if (left <= 0) return
        }
        if (read < count) return
        count = Math.max(left, SERVER_PAGE)
      }
    } catch (error) {
      if (error instanceof StreamUnusable) unusable.set(stream, error.message)
      throw error
    } finally {
      if (last !== undefined) seen(last)
    }
  }

  /**
   * Returns whether a stream has none of Mergelog's events at these revisions, and the number of other applications'
   * events.
   */
  async function othersBetween(stream: string, from: number, to: number) {
    let count = 0
    for await (const event of readServerEvents(stream, 'forwards', from, to - from + 1)) {
      if (event.revision > BigInt(to)) break
      if (toRecorded(event) !== undefined || isDamaged(event)) return { onlyOthers: false, count }
      others.set(stream, toSafe(event.revision, 'revision'))
      count += 1
    }
    return { onlyOthers: true, count }
  }

  /** Reads the stream's metadata. Without read permission, assumes no limits. */
  async function deletedBefore(stream: string, isEmpty: boolean): Promise<number> {
    try {
      for await (const { data } of readServerEvents(`$$${stream}`, 'backwards', MOST, 1)) {
        if (typeof data !== 'object' || data === null) return 0
        const hasLimit = '$maxCount' in data || '$maxAge' in data
        if (isEmpty && hasLimit) return Number.POSITIVE_INFINITY
        const first = '$tb' in data && typeof data.$tb === 'number' ? data.$tb : 0
        return first > MOST ? Number.POSITIVE_INFINITY : first
      }
    } catch (error) {
      if (!(error instanceof StoreDenied)) throw error
    }
    return 0
  }

  return {
    readStream,
    othersBetween,
    deletedBefore,
    recording,
    /** Records a damaged event of Mergelog. */
    noteDamage({ streamId, revision }: ServerEvent): void {
      unusable.set(streamId, damaged(streamId, toSafe(revision, 'revision')).message)
    },
    /** Returns the unusable streams, with reasons. */
    unusable: () => [...unusable.values()],
    /** Describes the events of other applications in Mergelog's streams. */
    othersFound: () =>
      Array.from(
        others,
        ([stream, revision]) => `event ${revision} of stream ${stream} was not written by Mergelog`,
      ),
  }
}

const damaged = (stream: string, revision: number, because = 'it has our metadata, but cannot be read') =>
  new StreamUnusable(`event ${revision} of stream ${stream} is damaged: ${because}`)

/** @throws StreamUnusable when the skipped revision was an event of Mergelog */
function requireLinked(one: RecordedEvent, other: RecordedEvent, passedOver: number): void {
  const [before, after] = one.revision < other.revision ? [one, other] : [other, one]
  const { previous } = after.metadata
  if (previous === undefined || previous === before.metadata.hash) return
  throw damaged(after.stream, passedOver, 'the event after it does not follow the one before it')
}

/** @throws StreamUnusable when the stream's first events were removed */
function requireWhole({ stream, revision, metadata }: RecordedEvent): void {
  if (revision === 0 || typeof metadata.previous !== 'string') return
  const cut = revision === 1 ? 'revision 0 is' : `revisions 0 to ${revision - 1} are`
  throw new StreamUnusable(`${cut} cut off from stream ${stream} ($maxCount, $tb, or a deletion)`, {
    repair: repairOfCut(stream),
  })
}
