/** The memory of the commands of one process: caches and queues. `commands/execution/` uses them. */
import { createKeyedMutex, type KeyedMutex } from '../../concurrency/keyed-mutex.ts'
import { contended, Refused } from '../../errors/refusal.ts'
import { isOutage, type NewEvent, type Position } from '../../events/store/event-store.ts'
import type { Projector } from '../../projections/projector/projector.ts'
import type { ReadStore } from '../../projections/store/read-store.ts'
import { type ClaimAges, createClaimAges } from './claim-ages.ts'
import { createIdsAhead, type IdsAhead } from './ids-ahead.ts'
import { createSnapshotCaches, type SnapshotCaches } from './snapshots.ts'

/** Maximum time that a command waits in the queue of its stream, in milliseconds. */
const QUEUE_TIMEOUT_MS = 30_000

/** A request that waits for a number of a sequence. */
export interface NumberRequest {
  /** Returns events that take this many numbers. */
  takes(count: number): NewEvent[]
  resolve(taken: { number: number; position: Position }): void
  reject(error: unknown): void
}

/** The read model of the events of requests with an Idempotency-Key. */
export interface KeyedEvents {
  projector: Pick<Projector, 'waitFor' | 'stopped'>
  readStore: Pick<ReadStore, 'getMany'>
}

export interface WriteState {
  snapshots: SnapshotCaches
  /**
   * Serializes commands on a stream, or on a part of it, within this process. Other nodes' writes show in its revision. When the
   * log does not answer, the waiting commands fail together.
   */
  mutex: KeyedMutex
  /** The queues of commands that conflicted with other writers, one per stream. */
  queues: KeyedMutex
  /** The requests that wait for a number, by sequence. */
  numberRequests: Map<string, NumberRequest[]>
  /** Absent when other servers write to the same log. */
  idsAhead: IdsAhead | undefined
  claimAges: ClaimAges
  /** Absent: streams are read instead. */
  keyedEvents: KeyedEvents | undefined
}

/**
 * Creates the state for one log. `isAlone`: no other server takes ids of this log. Otherwise none are taken ahead: lists are
 * sorted by id, and an id that another server took in the meantime would be larger.
 */
export function createWriteState({
  keyedEvents,
  claimAges = createClaimAges(),
  isAlone = false,
}: {
  keyedEvents?: KeyedEvents
  claimAges?: ClaimAges
  isAlone?: boolean
} = {}): WriteState {
  return {
    snapshots: createSnapshotCaches(),
    mutex: createKeyedMutex(undefined, isOutage),
    queues: createKeyedMutex(
      { timeoutMs: QUEUE_TIMEOUT_MS, timeoutError: () => new Refused(contended) },
      isOutage,
    ),
    numberRequests: new Map(),
    idsAhead: isAlone ? createIdsAhead(() => performance.now()) : undefined,
    claimAges,
    keyedEvents,
  }
}
