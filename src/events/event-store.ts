/**
 * The port to the log. Two adapters stand behind it: `sqlite.ts` (embedded) and `eventstoredb.ts`
 * (EventStoreDB / KurrentDB). `test/events/event-store-contract.ts` is what both must do.
 */
import { ErrorWithRefusal, storeUnavailable } from '../refusal.ts'

/** A place in the whole log. Grows with every event, has gaps, is a safe integer; 0 is before the first event. */
export type Position = number

/** Before the first event of the log. */
export const LOG_START: Position = 0

/** What an event carries beside its data; everyone who reads the log relies on all of it. */
export interface EventMetadata {
  /** Who did it; null when the server itself did (recovery, a process). */
  actor: { id: number; login: string } | null
  /** When it was decided, ISO 8601 in UTC with milliseconds. */
  at: string
  /** One id for all that follows from one request. */
  correlationId: string
  /** What led to this event directly: the request, or the id of another event. */
  causationId: string
  /** Version of the shape of `data` for this event type; upcasters lift older ones. */
  schema: number
  /** Digest of the request body when the client sent an Idempotency-Key. */
  request?: string
  /** The `hash` of the event before it in its stream, null for the first. The store sets it; see `chain.ts`. */
  previous?: string | null
  /** SHA-256 (base64url) of all of the event, `previous` included. The store sets it; older logs lack both. */
  hash?: string
}

/** Whether a value that was read is the envelope that Mergelog writes. */
export function isEventMetadata(value: unknown): value is EventMetadata {
  return (
    typeof value === 'object' &&
    value !== null &&
    'actor' in value &&
    'at' in value &&
    typeof value.at === 'string' &&
    'correlationId' in value &&
    typeof value.correlationId === 'string' &&
    'causationId' in value &&
    typeof value.causationId === 'string' &&
    'schema' in value &&
    typeof value.schema === 'number'
  )
}

/** An event that is about to be appended. `id` is a UUID; appending the same id again is a no-op. */
export interface NewEvent {
  id: string
  type: string
  data: object
  metadata: EventMetadata
}

/** An event as the log has it. */
export interface RecordedEvent extends NewEvent {
  stream: string
  /** Place in its stream, from 0. */
  revision: number
  position: Position
  /** The JSON as it stands in the store, where `readAll` was asked for it. */
  text?: StoredText
}

export interface StoredText {
  data: string
  metadata: string
}

/** What the writer believes about a stream: its last revision, or one of EventStoreDB's three words. */
export type ExpectedRevision = number | 'any' | 'no-stream' | 'stream-exists'

/** Where the last event of an append stands. */
export interface Appended {
  revision: number
  position: Position
}

export interface ReadStreamOptions {
  /** First revision to return, inclusive. Default: the first (forwards) or the last (backwards). */
  from?: number
  direction?: 'forwards' | 'backwards'
  maxCount?: number
}

export interface ReadAllOptions {
  /** Forwards: events after this position. Backwards: events before it. Default: from the start or the end. */
  from?: Position
  direction?: 'forwards' | 'backwards'
  maxCount?: number
  /** With the JSON of each event, from a store that has it as text. */
  withText?: boolean
}

export interface SubscribeOptions {
  /** Events after this position are delivered. */
  after: Position
  /** Ends the subscription: the iteration then finishes without an error. */
  signal: AbortSignal
  /** The most events in one batch; default 1000. */
  batchSize?: number
}

export interface EventStore {
  /**
   * Appends all events to one stream, or none. Resolves when they are durable.
   *
   * Idempotent by event id, as in EventStoreDB: when the same ids already stand where they would be
   * written (for `any` and `stream-exists`: anywhere in the stream, in the same order), nothing is
   * written and the answer is the place where they stand.
   *
   * @throws WrongExpectedRevision when the stream is not where the writer believes
   * @throws StoreUnavailable when the log can't be written now (disk full, server unreachable)
   */
  append(stream: string, events: readonly NewEvent[], expected: ExpectedRevision): Promise<Appended>
  /** The events of one stream in order; none when it does not exist. */
  readStream(stream: string, options?: ReadStreamOptions): AsyncIterable<RecordedEvent>
  /** The events of all streams in the order of the log. */
  readAll(options?: ReadAllOptions): AsyncIterable<RecordedEvent>
  /** The events at these positions, which ascend, in the order of the log; those that are not there are left out. */
  readPositions(positions: readonly Position[]): AsyncIterable<RecordedEvent>
  /**
   * Events after a position, for ever: first what is there, then what is appended, each once and in
   * order, in non-empty batches. Throws `StoreUnavailable` when the connection is lost; the reader
   * then subscribes again from where it stands.
   */
  subscribe(options: SubscribeOptions): AsyncIterable<RecordedEvent[]>
  /** Position of the last event of the log; `LOG_START` when it is empty. */
  lastPosition(): Promise<Position>
  close(): Promise<void>
}

/** The stream is not at the revision that the writer expected; reload and decide again. */
export class WrongExpectedRevision extends Error {
  override readonly name = 'WrongExpectedRevision'
  readonly stream: string
  readonly expected: ExpectedRevision
  /** The stream's last revision; null when it does not exist. */
  readonly actual: number | null

  constructor(stream: string, expected: ExpectedRevision, actual: number | null) {
    super(`stream ${stream} is at ${actual ?? 'no revision'}, expected ${expected}`)
    this.stream = stream
    this.expected = expected
    this.actual = actual
  }
}

/** A store can't answer now; the client may try again. HTTP answers 503. */
export class StoreUnavailable extends ErrorWithRefusal {
  override readonly name = 'StoreUnavailable'
  readonly refusal = storeUnavailable
}
