/**
 * EventStoreDB's rules for streams, on top of the event store port: expected revisions of deleted streams, soft deletes
 * (a `$tb` in the metadata stream), tombstones, truncation.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import {
  type Appended,
  type EventStore,
  type ExpectedRevision,
  type NewEvent,
  type RecordedEvent,
  WrongExpectedRevision,
} from '../../../src/events/store/event-store.ts'
import { offsetOf } from './positions.ts'

/** EventStoreDB's default `MaxAppendSize`, in bytes. */
export const MAX_APPEND_SIZE = 1024 * 1024

/**
 * The bytes of an event that count for the size of an append: data, metadata and two for each character of its type.
 * The sum of version 23.10 leaves out metadata and type by mistake; other versions add all three.
 */
export function sizeOf({ data, metadata, type }: ServerEvent): number {
  return data.length + metadata.length + 2 * type.length
}

const SOFT_DELETED = '{"$tb":9223372036854775807}'

/** An event of EventStoreDB: bytes with a content type. */
export interface ServerEvent {
  id: string
  type: string
  contentType: string
  data: Buffer
  metadata: Buffer
}

export interface RecordedServerEvent extends ServerEvent {
  stream: string
  revision: number
  /** The offset of its record in the log. */
  position: number
  /** The time when it was written, ISO 8601. */
  created: string
}

export interface StreamState {
  /** The last revision in the log; null when the stream was never written. */
  last: number | null
  /** The first revision that reads still return. */
  first: number
  tombstoned: boolean
  softDeleted: boolean
}

/** The stream has a tombstone: it cannot be read or written again. */
export class StreamDeleted extends Error {
  override readonly name = 'StreamDeleted'
  readonly stream: string

  constructor(stream: string) {
    super(`Event stream '${stream}' is deleted.`)
    this.stream = stream
  }
}

export class AppendTooLarge extends Error {
  override readonly name = 'AppendTooLarge'
}

/** More events came at once than a live subscription holds. */
export class ConsumerTooSlow extends Error {
  override readonly name = 'ConsumerTooSlow'

  constructor() {
    super(
      'Operation timed out: Consumer too slow to handle event while live. Client resubscription required.',
    )
  }
}

/** A feature that a real server has and the double does not. */
export class NotSupported extends Error {
  override readonly name = 'NotSupported'

  constructor(what: string) {
    super(`${what}: not supported by the double`)
  }
}

export type Streams = ReturnType<typeof openStreams>

/**
 * `flushMs`: delay between the acceptance of an append and its visibility to reads. Later appends are compared with it
 * immediately.
 */
export function openStreams(store: EventStore, flushMs: number) {
  const lastOf = new Map<string, Promise<unknown>>()
  /** Resolves when every append so far is in the log, or on its way there. The server writes in the order of arrival. */
  let begun: Promise<void> = Promise.resolve()
  /** The first revisions of the appends that were accepted and are not readable yet, oldest first. */
  const unflushed = new Map<string, number[]>()

  async function flushed(stream: string, first: number): Promise<void> {
    if (flushMs === 0) return
    const waiting = unflushed.get(stream) ?? []
    unflushed.set(stream, waiting)
    waiting.push(first)
    await setTimeout(flushMs)
    waiting.splice(waiting.indexOf(first), 1)
    if (waiting.length === 0) unflushed.delete(stream)
  }

  /** Runs the writes to one stream one after another, so that a check still holds when the write happens. */
  function runExclusive<T>(stream: string, work: () => Promise<T>): Promise<T> {
    const mine = (lastOf.get(stream) ?? Promise.resolve()).then(work)
    const settled = mine.catch(() => {})
    lastOf.set(stream, settled)
    settled.then(() => {
      if (lastOf.get(stream) === settled) lastOf.delete(stream)
    })
    return mine
  }

  async function lastEvent(stream: string): Promise<RecordedServerEvent | undefined> {
    for await (const event of store.readStream(stream, { direction: 'backwards', maxCount: 1 })) {
      return toServerEvent(event)
    }
    return undefined
  }

  async function state(stream: string): Promise<StreamState> {
    const last = await lastEvent(stream)
    const revision = last?.revision ?? null
    const tombstoned = last?.type === '$streamDeleted'
    const settings = isMetadataStream(stream) ? undefined : await lastEvent(`$$${stream}`)
    const { truncateBefore, maxCount } = limitsIn(settings)
    return {
      last: revision,
      first: Math.max(truncateBefore, revision === null ? 0 : revision - maxCount + 1, 0),
      tombstoned,
      // JSON cannot hold the largest 64-bit integer exactly. No other value is near it.
      softDeleted: truncateBefore > Number.MAX_SAFE_INTEGER,
    }
  }

  async function write(
    stream: string,
    events: readonly ServerEvent[],
    expected: ExpectedRevision,
  ): Promise<Appended> {
    const { revision, position } = await store.append(stream, events.map(toNewEvent), expected)
    return { revision, position: offsetOf(position) }
  }

  function writeMetadata(stream: string, json: string): Promise<Appended> {
    return write(`$$${stream}`, [serverEvent('$metadata', json)], 'any')
  }

  return {
    /** The event from a reader's view. */
    async readable(stream: string): Promise<StreamState> {
      const all = await state(stream)
      const [first] = unflushed.get(stream) ?? []
      return first === undefined ? all : { ...all, last: first === 0 ? null : first - 1 }
    },

    async append(
      stream: string,
      events: readonly ServerEvent[],
      expected: ExpectedRevision,
    ): Promise<Appended> {
      let before = -1
      const earlier = begun
      let begins = () => {}
      begun = new Promise((resolve) => {
        begins = resolve
      })
      const appended = await runExclusive(stream, async () => {
        const size = events.reduce((sum, event) => sum + sizeOf(event), 0)
        if (size > MAX_APPEND_SIZE)
          throw new AppendTooLarge(`the append is larger than ${MAX_APPEND_SIZE} bytes`)
        if (isMetadataStream(stream)) refuseUnknownLimits(events)
        const { last, tombstoned, softDeleted } = await state(stream)
        before = last ?? before
        if (tombstoned) throw new StreamDeleted(stream)
        await earlier
        if (!softDeleted || last === null) {
          const written = write(stream, events, expected)
          begins()
          return written
        }
        if (expected === 'stream-exists') throw new StreamDeleted(stream)
        const next = expected === 'no-stream' ? last : expected
        if (typeof next === 'number' && next !== last) throw new WrongExpectedRevision(stream, expected, last)
        // Write the metadata before the events: a crash between the two leaves an empty stream, not unreadable events.
        await writeMetadata(stream, `{"$tb":${last + 1}}`)
        return write(stream, events, next)
      }).finally(begins)
      // A repeated append has been readable since the first one.
      if (appended.revision > before) await flushed(stream, before + 1)
      return appended
    },

    softDelete(stream: string, expected: ExpectedRevision): Promise<Appended> {
      return runExclusive(stream, async () => {
        refuseUnexpected(stream, await state(stream), expected)
        return writeMetadata(stream, SOFT_DELETED)
      })
    },

    tombstone(stream: string, expected: ExpectedRevision): Promise<Appended> {
      return runExclusive(stream, async () => {
        refuseUnexpected(stream, await state(stream), expected)
        return write(stream, [serverEvent('$streamDeleted', '')], 'any')
      })
    },
  }
}

function refuseUnexpected(stream: string, state: StreamState, expected: ExpectedRevision): void {
  if (state.tombstoned) throw new StreamDeleted(stream)
  const exists = state.last !== null && !state.softDeleted
  const asExpected =
    expected === 'any' ||
    (expected === 'no-stream' && !exists) ||
    (expected === 'stream-exists' && exists) ||
    expected === state.last
  if (!asExpected) throw new WrongExpectedRevision(stream, expected, state.last)
}

function isMetadataStream(stream: string): boolean {
  return stream.startsWith('$$')
}

export function serverEvent(type: string, json: string): ServerEvent {
  const data = Buffer.from(json)
  return { id: randomUUID(), type, contentType: 'application/json', data, metadata: Buffer.alloc(0) }
}

function metadataIn(event: ServerEvent | undefined): Record<string, unknown> {
  if (event?.type !== '$metadata') return {}
  try {
    const value: unknown = JSON.parse(event.data.toString())
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}

function limitsIn(event: ServerEvent | undefined): { truncateBefore: number; maxCount: number } {
  const { $tb, $maxCount } = metadataIn(event)
  return {
    truncateBefore: typeof $tb === 'number' ? $tb : 0,
    maxCount: typeof $maxCount === 'number' ? $maxCount : Number.MAX_SAFE_INTEGER,
  }
}

function refuseUnknownLimits(events: readonly ServerEvent[]): void {
  if (events.some((event) => '$maxAge' in metadataIn(event))) throw new NotSupported('$maxAge')
}

/** The port stores JSON with Mergelog's metadata. A client's bytes are stored inside the JSON, as base64. */
function toNewEvent(event: ServerEvent): NewEvent {
  const { id, type, contentType, data, metadata } = event
  return {
    id,
    type,
    data: { contentType, data: data.toString('base64'), metadata: metadata.toString('base64') },
    metadata: { actor: null, at: new Date().toISOString(), correlationId: id, causationId: id, schema: 1 },
  }
}

export function toServerEvent(event: RecordedEvent): RecordedServerEvent {
  const { id, type, stream, revision, position, data } = event
  if (!isStored(data)) throw new Error(`event ${id} was not written by the double`)
  return {
    id,
    type,
    stream,
    revision,
    position: offsetOf(position),
    created: event.metadata.at,
    contentType: data.contentType,
    data: Buffer.from(data.data, 'base64'),
    metadata: Buffer.from(data.metadata, 'base64'),
  }
}

function isStored(data: object): data is { contentType: string; data: string; metadata: string } {
  return (
    'contentType' in data &&
    typeof data.contentType === 'string' &&
    'data' in data &&
    typeof data.data === 'string' &&
    'metadata' in data &&
    typeof data.metadata === 'string'
  )
}
