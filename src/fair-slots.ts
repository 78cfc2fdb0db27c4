/** Limits concurrency fairly: no key holds more than its share of the slots, nor of the places of those who wait. */
import { createFairLine } from './fair-line.ts'
import { type LimitName, limitReached } from './limits.ts'
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
   * When too many wait already, the last one of the key that has most of them makes room for one of a key with fewer.
   *
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

/** One who waits for a slot. */
interface Waiting {
  start(): void
  /** Its place is needed for another one. */
  turnOut(): void
}

const quarterOf = (count: number) => Math.max(1, Math.floor(count / 4))

/** Makes slots, all free. What it remembers of a key ends with the last slot or wait of that key. */
export function createFairSlots(limits: FairLimits): FairSlots {
  const { name, size, share = quarterOf(size), waiting: places = 16 * size } = limits
  const { waitingShare = quarterOf(places) } = limits
  const shares = createShares({ all: size, perNetwork: share })
  const line = createFairLine<Waiting>({ places, perKey: waitingShare })

  /** Takes a slot that is free, and returns how to release it. */
  function start(key: string): () => void {
    const giveBack = shares.take(key, 1)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      giveBack()
      const mayStart = (next: string) => shares.lacking(next, 1) === undefined
      const next = line.next(mayStart, shares.held)
      next?.start()
    }
  }

  function full(whose: 'own' | 'all'): SlotsFull {
    limitReached(name)
    return new SlotsFull(whose)
  }

  return {
    async take(key, signal) {
      signal?.throwIfAborted()
      const lacking = shares.lacking(key, 1)
      if (lacking === undefined) return start(key)
      return await new Promise((resolve, reject) => {
        const giveUp = () => {
          line.leave(key, mine)
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
        const whoseIsFull = line.join(key, mine)
        if (whoseIsFull !== undefined) return reject(full(lacking === 'network' ? 'own' : whoseIsFull))
        signal?.addEventListener('abort', giveUp, { once: true })
      })
    },
    size,
    counts: () => ({ running: shares.held(), waiting: line.length() }),
  }
}
