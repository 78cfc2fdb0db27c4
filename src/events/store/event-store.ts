/**
 * The port to the log. It has two adapters: `sqlite.ts` (embedded) and `eventstoredb.ts` (EventStoreDB / KurrentDB).
 * Both must pass `test/events/event-store-contract.ts`.
 */
import { ErrorWithRefusal, logDamaged, type Refusal, storeUnavailable } from '../../errors/refusal.ts'
import type { PassedOver } from './damage.ts'

/** Position in the whole log: a safe integer that grows with every event, with gaps. */
export type Position = number

/** The position before the first event of the log. */
export const LOG_START: Position = 0

/** The kind of credential by which a request signed in. `session`: of a browser, after a sign-in by OpenID Connect. */
export const CREDENTIALS = ['password', 'token', 'session'] as const
export type Credential = (typeof CREDENTIALS)[number]

/** The metadata of an event. Readers of the log rely on every required field. */
export interface EventMetadata {
  /** The account that caused the event; null for the server (recovery, a process manager). */
  actor: { id: number; login: string } | null
  /** When the event was decided: ISO 8601 in UTC, with milliseconds. */
  at: string
  /** Equal for all events that follow from one request. */
  correlationId: string
  /** The direct cause of this event: the id of the request, or of another event. */
  causationId: string
  /** The schema number of `data` for this event type. Upcasters lift older schemas. */
  schema: number
  /** The node that appended the event. Only operators see it: it may name a machine. */
  node?: string
  /** The site admin that acted as the actor (`Sudo`). */
  sudo?: { id: number; login: string }
  /** The credential of the request that caused the event. Absent when the server itself caused it. */
  credential?: Credential
  /** The digest of the request body. Present when the client sent an Idempotency-Key. */
  request?: string
  /** The `hash` of the event before it in its stream; null for the first event. The store sets it: `chain.ts`. */
  previous?: string | null
  /** The SHA-256 (base64url) of the whole event, with `previous`. The store sets it. */
  hash?: string
}

/** Whether a value from a store is metadata that Mergelog wrote. */
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
    typeof value.schema === 'number' &&
    (!('node' in value) || typeof value.node === 'string')
  )
}

/** An event to append. `id` is a UUID; appending the same id again changes nothing. */
export interface NewEvent {
  id: string
  type: string
  data: object
  metadata: EventMetadata
}

/** An event that was read from the log. */
export interface RecordedEvent extends NewEvent {
  stream: string
  /** The event's place in its stream, from 0. */
  revision: number
  position: Position
  /** The stored JSON. Present when `readAll` was called with `withText` and the store keeps JSON as text. */
  text?: StoredText
}

export interface StoredText {
  data: string
  metadata: string
}

/** An event as a store writes it. */
export interface EventText extends StoredText {
  id: string
  type: string
}

/** The expected state of the stream: its last revision, or one of EventStoreDB's three words. */
export type ExpectedRevision = number | 'any' | 'no-stream' | 'stream-exists'

/** The place of the last event of an append. */
export interface Appended {
  revision: number
  position: Position
}

/** Events to append to one stream, or none of them. */
export interface Append {
  stream: string
  events: readonly NewEvent[]
  expected: ExpectedRevision
}

export interface ReadStreamOptions {
  /** The revision to begin with. Default: the first (forwards) or the last (backwards). */
  from?: number
  direction?: 'forwards' | 'backwards'
  maxCount?: number
}

export interface ReadAllOptions {
  /** Forwards: return events after this position. Backwards: before it. Default: from the start or the end. */
  from?: Position
  direction?: 'forwards' | 'backwards'
  maxCount?: number
  /** Whether to return the JSON text of each event, too. Only the embedded store has it. */
  withText?: boolean
  /** Called for each skipped event: another application's, or a damaged one. Only EventStoreDB has such events. */
  passedOver?: (event: PassedOver) => void
}

export interface SubscribeOptions {
  /** The subscription delivers the events after this position. */
  after: Position
  /** Aborting it ends the subscription: the iteration finishes without an error. */
  signal: AbortSignal
  /** Maximum number of events per batch; default 1000. */
  batchSize?: number
  /** Types of events to leave out. `passed` reports the progress over them. */
  unwanted?: ReadonlySet<string>
  /**
   * Called with a position when every event up to it was delivered or left out, and the reader has requested more. The
   * position may be of another application's event. Positions only increase.
   */
  passed?: (position: Position) => void
}

/** Problems of a log that answers. */
interface LogProblems {
  /** Reason why a recent write was denied. */
  denied: string | undefined
  /** Events of other applications in Mergelog's streams, by stream and revision. */
  others: readonly string[]
  /** Streams that were unusable at the last access, with the reason. */
  unusable: readonly string[]
}

export interface EventStore {
  /**
   * Appends all events to one stream, or none. Resolves when they are durable. The caller keeps to the limit of
   * `append-size.ts`: EventStoreDB refuses an append of more than 1 MiB. Idempotent by event id, as in EventStoreDB. If
   * the stream already has these ids at the expected revision (for `any` and `stream-exists`: anywhere, in the same
   * order), nothing is written, and the result is their place.
   * @throws WrongExpectedRevision when the stream is not at the expected revision
   * @throws StoreUnavailable when the log cannot be written now (disk full, server unreachable)
   */
  append(stream: string, events: readonly NewEvent[], expected: ExpectedRevision): Promise<Appended>
  /**
   * Appends to several streams atomically. Each maker gets the places of the appends before it, and may be called several
   * times. The events must be new: a repeated id is refused. Only for stores that can write several streams at once.
   * @throws as `append`; errors of `makers`
   */
  appendTogether?(makers: readonly ((before: readonly Appended[]) => Append)[]): Promise<readonly Appended[]>
  /** Reads the events of one stream in order; none when the stream does not exist. */
  readStream(stream: string, options?: ReadStreamOptions): AsyncIterable<RecordedEvent>
  /** Reads the events of all streams in the order of the log. */
  readAll(options?: ReadAllOptions): AsyncIterable<RecordedEvent>
  /** Reads the events at these ascending positions. Positions without an event are left out. */
  readPositions(positions: readonly Position[]): AsyncIterable<RecordedEvent>
  /**
   * Delivers the events after a position without end: first the existing ones, then new ones as they are appended.
   * Each event comes once, in order, in non-empty batches. Leaves out `unwanted` events.
   * @throws StoreUnavailable when the connection is lost; the reader then subscribes again after its last event
   */
  subscribe(options: SubscribeOptions): AsyncIterable<RecordedEvent[]>
  /**
   * Returns the end of the log, as subscriptions report it: the position of the last event, or of a later event of
   * another application; `LOG_START` for an empty log. Takes constant time.
   */
  lastPosition(): Promise<Position>
  /**
   * Number of erasures of texts, by this or another node: when it grows, cached events are stale. Only for a log with
   * opened texts (`sealed-store.ts`).
   */
  erasures?(): number
  /** Calls the listener after each erasure of texts. */
  onErasure?(listener: () => void): void
  /** Returns problems for the operator while the log answers. */
  problems?(): LogProblems
  close(): Promise<void>
}

/** The stream is not at the revision that the writer expected. The writer reloads it and decides again. */
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

/** A store cannot answer now. The client gets 503 and may retry. */
export class StoreUnavailable extends ErrorWithRefusal {
  override readonly name: string = 'StoreUnavailable'
  readonly refusal: Refusal = storeUnavailable
}

/** All retries lost against other writers. The store answers, and writers of other streams may succeed. */
export class TooManyWriters extends StoreUnavailable {
  override readonly name = 'TooManyWriters'
}

/** Whether other callers of the same store would get the same error. */
export const isOutage = (error: unknown): boolean =>
  error instanceof StoreUnavailable && !(error instanceof TooManyWriters)

/** The server denies an operation that Mergelog needs, until an operator changes the settings. */
export class StoreDenied extends StoreUnavailable {
  override readonly name = 'StoreDenied'
}

/** The server now has a different log, or an older copy. An operator must restore a matching one. */
export class LogReplaced extends StoreUnavailable {
  override readonly name = 'LogReplaced'
}

/**
 * A stream cannot be used: it has a tombstone, its beginning was removed, or an event in it is damaged. Other streams work.
 */
export class StreamUnusable extends StoreUnavailable {
  override readonly name = 'StreamUnusable'
  override readonly refusal = logDamaged(this.message)
  /** The operator's remedy; without it, only a backup helps. */
  readonly repair: string | undefined

  constructor(message: string, { repair, ...options }: ErrorOptions & { repair?: string } = {}) {
    super(message, options)
    this.repair = repair
  }
}

/** Whether the store may answer again without an operator. */
export const mayRecover = (error: unknown): boolean =>
  error instanceof StoreUnavailable &&
  !(error instanceof StoreDenied || error instanceof LogReplaced || error instanceof StreamUnusable)
