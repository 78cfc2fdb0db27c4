/**
 * A fair semaphore: limits concurrent work and divides the slots among keys, which name clients. A key holds at most
 * its share of the slots. A caller without a free slot waits in the queue of its key. A freed slot goes to the waiting
 * key that holds the fewest slots, in order of arrival among equals. The queues have a common limit: when it is
 * reached, the last caller of the longest queue is evicted for a caller of a shorter queue. So a client's only waiting
 * caller is never evicted. A caller is refused with 429 when its own queue is full, with 503 when all queues together
 * are full.
 */
import { type LimitName, limitReached } from '../errors/limits.ts'
import { ErrorWithRefusal, type Refusal, refuse } from '../errors/refusal.ts'
import { createBudget } from './budget.ts'

export interface SemaphoreLimits {
  /** The limit that counts refusals. Without it the queue is unbounded. */
  name?: LimitName
  /** Number of slots. */
  size: number
  /** Slots that one key may hold. Default: a quarter of `size`, at least 1. */
  share?: number
  /** Queue capacity. 0: callers that find no free slot are refused. Default: 16 for each slot. */
  waiting?: number
  /** Queue capacity of one key. Default: a quarter of `waiting`. */
  waitingShare?: number
}

export interface Semaphore {
  /**
   * Waits for a free slot and takes it. `key` names the client. Returns a function that releases the slot; a second call
   * does nothing.
   * @throws SlotsFull when the queue is full, or the signal's reason when it is aborted before a slot is free
   */
  take(key: string, signal?: AbortSignal): Promise<() => void>
  readonly size: number
  /** Number of taken slots and of waiting callers. */
  counts(): { running: number; waiting: number }
}

/** The queue is full: the client's own (429) or all queues together (503). */
export class SlotsFull extends ErrorWithRefusal {
  readonly refusal: Refusal

  constructor(whose: 'own' | 'all') {
    super(whose === 'own' ? 'this client has too many requests at once' : 'too many requests at once')
    this.refusal =
      whose === 'own'
        ? refuse.tooManyRequests('you have too many requests at once; try again when they are done')
        : refuse.unavailable('the server has too many requests at once; try again')
  }
}

interface Waiting {
  start(): void
  /** Rejects the caller in favour of another client. */
  evict(): void
}

const quarterOf = (count: number) => Math.max(1, Math.floor(count / 4))

/** Creates a semaphore. The state of a key ends with its last slot or waiting caller. */
export function createSemaphore(limits: SemaphoreLimits): Semaphore {
  const { name, size, share = quarterOf(size) } = limits
  const { waiting: capacity = name === undefined ? Number.POSITIVE_INFINITY : 16 * size } = limits
  const { waitingShare = quarterOf(capacity) } = limits
  const slots = createBudget({ all: size, perNetwork: share })
  /** Waiting callers by key, in order of arrival. A key that got a slot moves to the end. */
  const queues = new Map<string, Waiting[]>()
  let waiting = 0

  function leave(key: string, one: Waiting): void {
    const queue = queues.get(key) ?? []
    const index = queue.indexOf(one)
    if (index === -1) return
    queue.splice(index, 1)
    waiting -= 1
    if (queue.length === 0) queues.delete(key)
  }

  /** Enqueues a caller. Returns the full queue, if any: the key's own, or all together. */
  function join(key: string, one: Waiting): 'own' | 'all' | undefined {
    const own = queues.get(key)?.length ?? 0
    if (own >= waitingShare) return 'own'
    if (waiting >= capacity && !evictFor(own + 1)) return own === 0 ? 'all' : 'own'
    const queue = queues.get(key) ?? []
    queue.push(one)
    queues.set(key, queue)
    waiting += 1
    return undefined
  }

  /** Evicts the last caller of the longest queue, if that is longer than `most`. */
  function evictFor(most: number): boolean {
    let largest: { key: string; queue: Waiting[] } | undefined
    for (const [key, queue] of queues) {
      if (queue.length > (largest?.queue.length ?? most)) largest = { key, queue }
    }
    const last = largest?.queue.at(-1)
    if (largest === undefined || last === undefined) return false
    leave(largest.key, last)
    last.evict()
    return true
  }

  function startNext(): void {
    let least: { key: string; held: number } | undefined
    for (const key of queues.keys()) {
      const held = slots.held(key)
      if (slots.lacking(key, 1) === undefined && (least === undefined || held < least.held))
        least = { key, held }
    }
    const queue = least && queues.get(least.key)
    const first = queue?.[0]
    if (least === undefined || queue === undefined || first === undefined) return
    leave(least.key, first)
    // Move the key to the end.
    if (queues.delete(least.key)) queues.set(least.key, queue)
    first.start()
  }

  /** Takes a free slot. Returns a function that releases it. */
  function start(key: string): () => void {
    const releaseSlot = slots.take(key, 1)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      releaseSlot()
      startNext()
    }
  }

  function full(whose: 'own' | 'all'): SlotsFull {
    if (name !== undefined) limitReached(name)
    return new SlotsFull(whose)
  }

  return {
    async take(key, signal) {
      signal?.throwIfAborted()
      const lacking = slots.lacking(key, 1)
      if (lacking === undefined) return start(key)
      return await new Promise((resolve, reject) => {
        const abandon = () => {
          leave(key, caller)
          reject(signal?.reason)
        }
        const caller: Waiting = {
          start() {
            signal?.removeEventListener('abort', abandon)
            resolve(start(key))
          },
          evict() {
            signal?.removeEventListener('abort', abandon)
            reject(full('own'))
          },
        }
        const fullQueue = join(key, caller)
        if (fullQueue !== undefined) return reject(full(lacking === 'network' ? 'own' : fullQueue))
        signal?.addEventListener('abort', abandon, { once: true })
      })
    },
    size,
    counts: () => ({ running: slots.held(), waiting }),
  }
}

/** Pause length as a multiple of the work's duration. A caller that must pause works at most a fifth of the time. */
const PAUSE_FACTOR = 4
/** Longest pause, in milliseconds. On a busy host, work takes longer than it needs. */
const MAX_PAUSE_MS = 1000

/** How long a client keeps its slot after work that other clients waited for, in milliseconds. */
export const pauseAfter = (workedMs: number): number => Math.min(MAX_PAUSE_MS, PAUSE_FACTOR * workedMs)
