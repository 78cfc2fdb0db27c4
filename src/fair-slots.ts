/** Limits concurrency fairly: no key holds more than its share of the slots, nor of the places of those who wait. */
import { type LimitName, limitReached } from './limits.ts'
import { goOnForOthers } from './long-work.ts'
import { ErrorWithRefusal, type Refusal, refuse } from './refusal.ts'
import { createShares } from './shares.ts'

export interface FairLimits {
  /** The name under which it is counted that somebody was refused. */
  name: LimitName
  /** How many things run at the same time. */
  size: number
  /** How many of them may belong to one key. Default: a quarter of `size`, at least 1. */
  share?: number
  /** How many may wait. 0: nobody waits; who finds no free slot is refused. Default: 16 for each slot. */
  waiting?: number
  /** How many of those who wait may belong to one key. Default: a quarter of `waiting`. */
  waitingShare?: number
}

export interface FairSlots {
  /**
   * Waits for a free slot and takes it. `key` is whose work it is. The caller must call the returned function when it
   * is done; a second call does nothing.
   *
   * A slot that becomes free goes to the key that holds the fewest. Among these they take turns, in order of arrival.
   *
   * @throws SlotsFull when too many wait already, or the signal's reason when it is aborted before a slot is free
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

const quarterOf = (count: number) => Math.max(1, Math.floor(count / 4))

/** Makes slots, all free. What it remembers of a key ends with the last slot or wait of that key. */
export function createFairSlots(limits: FairLimits): FairSlots {
  const { name, size, share = quarterOf(size), waiting: places = 16 * size } = limits
  const { waitingShare = quarterOf(places) } = limits
  const shares = createShares({ all: size, perNetwork: share })
  let waiting = 0
  /** Those who wait, by key, in order of arrival. The key that had a turn goes to the end of the line. */
  const queues = new Map<string, Set<() => void>>()

  function leave(key: string, wake: () => void): void {
    const queue = queues.get(key)
    if (queue?.delete(wake)) waiting -= 1
    if (queue?.size === 0) queues.delete(key)
  }

  /** The key that gets the next slot: that with the fewest slots, the first in line of several. */
  function nextKey(): string | undefined {
    let best: { key: string; count: number } | undefined
    for (const key of queues.keys()) {
      if (shares.lacking(key, 1) !== undefined) continue
      const count = shares.held(key)
      if (best === undefined || count < best.count) best = { key, count }
    }
    return best?.key
  }

  /** Takes a slot that is free, and returns how to release it. */
  function start(key: string): () => void {
    const giveBack = shares.take(key, 1)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      giveBack()
      const next = nextKey()
      const queue = next === undefined ? undefined : queues.get(next)
      if (next === undefined || queue === undefined) return
      queues.delete(next)
      queues.set(next, queue)
      const [wake] = queue
      // Who waited goes on here, and does not end with who gives its slot back.
      goOnForOthers()
      wake?.()
    }
  }

  return {
    async take(key, signal) {
      signal?.throwIfAborted()
      const lacking = shares.lacking(key, 1)
      if (lacking === undefined) return start(key)
      const queue = queues.get(key) ?? new Set<() => void>()
      if (waiting >= places || queue.size >= waitingShare) {
        limitReached(name)
        const isForAll = waiting >= places && lacking === 'all' && queue.size === 0
        throw new SlotsFull(isForAll ? 'all' : 'own')
      }
      queues.set(key, queue)
      waiting += 1
      return await new Promise((resolve, reject) => {
        const giveUp = () => {
          leave(key, wake)
          reject(signal?.reason)
        }
        const wake = () => {
          signal?.removeEventListener('abort', giveUp)
          leave(key, wake)
          resolve(start(key))
        }
        queue.add(wake)
        signal?.addEventListener('abort', giveUp, { once: true })
      })
    },
    size,
    counts: () => ({ running: shares.held(), waiting }),
  }
}
