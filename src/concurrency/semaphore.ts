/**
 * The semaphore: limits how much runs at the same time, and shares it out fairly among clients. A key names a client. No
 * key holds more than its share of the slots. A caller that finds no free slot waits in the queue of its key. A slot that becomes
 * free goes to the key that holds the fewest; among these they take turns, in order of arrival. The queues are limited
 * together: when they are full, the last caller of the longest queue makes room for a caller of a shorter one. So a client
 * never loses its only place, and a new client still gets one. A caller without a place is refused: with 429 when its own
 * queue is full, with 503 when all queues together are.
 */
import { type LimitName, limitReached } from '../errors/limits.ts'
import { ErrorWithRefusal, type Refusal, refuse } from '../errors/refusal.ts'
import { createBudget } from './budget.ts'

export interface SemaphoreLimits {
  /** The name under which it is counted that somebody was refused. Without it, any number may wait. */
  name?: LimitName
  /** How many things run at the same time. */
  size: number
  /** How many of them may belong to one key. Default: a quarter of `size`, at least 1. */
  share?: number
  /** How many may wait. 0: callers that find no free slot are refused. Default: 16 for each slot. */
  waiting?: number
  /** How many of those who wait may belong to one key. Default: a quarter of `waiting`. */
  waitingShare?: number
}

export interface Semaphore {
  /**
   * Waits for a free slot and takes it. `key` is whose work it is. The caller must call the returned function when it
   * is done; a second call does nothing.
   * @throws SlotsFull when too many wait, or the signal's reason when it is aborted before a slot is free
   */
  take(key: string, signal?: AbortSignal): Promise<() => void>
  /** How many slots there are. */
  readonly size: number
  /** How many slots are taken, and how many wait. */
  counts(): { running: number; waiting: number }
}

/** Too much is running and waiting already: for this client (429), or in all (503). */
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
  /** Its place is needed for another one. */
  turnOut(): void
}

const quarterOf = (count: number) => Math.max(1, Math.floor(count / 4))

/** Makes slots, all free. What it remembers of a key ends with the last slot or wait of that key. */
export function createSemaphore(limits: SemaphoreLimits): Semaphore {
  const { name, size, share = quarterOf(size) } = limits
  const { waiting: places = name === undefined ? Number.POSITIVE_INFINITY : 16 * size } = limits
  const { waitingShare = quarterOf(places) } = limits
  const slots = createBudget({ all: size, perNetwork: share })
  /** Those who wait, by key, in order of arrival. The key that had a turn goes to the end. */
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

  /** Puts one behind those of its key. Returns undefined, or whose places are full: those of the key, or all. */
  function join(key: string, one: Waiting): 'own' | 'all' | undefined {
    const own = queues.get(key)?.length ?? 0
    if (own >= waitingShare) return 'own'
    if (waiting >= places && !makeRoom(own + 1)) return own === 0 ? 'all' : 'own'
    const queue = queues.get(key) ?? []
    queue.push(one)
    queues.set(key, queue)
    waiting += 1
    return undefined
  }

  /** Takes the place of the last one of the key that has most, when it has more than so many. */
  function makeRoom(most: number): boolean {
    let largest: { key: string; queue: Waiting[] } | undefined
    for (const [key, queue] of queues) {
      if (queue.length > (largest?.queue.length ?? most)) largest = { key, queue }
    }
    const last = largest?.queue.at(-1)
    if (largest === undefined || last === undefined) return false
    leave(largest.key, last)
    last.turnOut()
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
    // To the end of the keys.
    if (queues.delete(least.key)) queues.set(least.key, queue)
    first.start()
  }

  /** Takes a slot that is free, and returns how to release it. */
  function start(key: string): () => void {
    const giveBack = slots.take(key, 1)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      giveBack()
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
        const giveUp = () => {
          leave(key, mine)
          reject(signal?.reason)
        }
        const mine: Waiting = {
          start() {
            signal?.removeEventListener('abort', giveUp)
            resolve(start(key))
          },
          turnOut() {
            signal?.removeEventListener('abort', giveUp)
            reject(full('own'))
          },
        }
        const whoseIsFull = join(key, mine)
        if (whoseIsFull !== undefined) return reject(full(lacking === 'network' ? 'own' : whoseIsFull))
        signal?.addEventListener('abort', giveUp, { once: true })
      })
    },
    size,
    counts: () => ({ running: slots.held(), waiting }),
  }
}

/** How many times as long as the work a rest after it is. So a caller that must rest works a fifth of the time at most. */
const PAUSE_FACTOR = 4
/** A busy machine makes work long; the rest after it is not longer than this, in milliseconds. */
const MAX_PAUSE_MS = 1000

/** How long a client keeps its slot after work that others had to wait for. In milliseconds, as the work. */
export const pauseAfter = (workedMs: number): number => Math.min(MAX_PAUSE_MS, PAUSE_FACTOR * workedMs)
