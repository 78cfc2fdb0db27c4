/** One limit for several caches: what they have together counts, so an installation may use any of them much. */

interface Sized {
  readonly calculatedSize: number
  /** Forgets what was not used for the longest time. */
  pop(): unknown
}

export interface SharedLimit {
  /** The limit holds for this cache, too. Returns it. */
  share<C extends Sized>(cache: C): C
  /** To be called when something was added to a cache: while they have too much, the one that has most forgets. */
  keep(): void
}

/** Makes a limit, in the units in which the caches count. */
export function createSharedLimit(most: number): SharedLimit {
  const caches: Sized[] = []
  return {
    share(cache) {
      caches.push(cache)
      return cache
    },
    keep() {
      let sum = 0
      for (const { calculatedSize } of caches) sum += calculatedSize
      while (sum > most) {
        const [first, ...others] = caches
        if (first === undefined) return
        const largest = others.reduce((a, b) => (b.calculatedSize > a.calculatedSize ? b : a), first)
        const before = largest.calculatedSize
        largest.pop()
        sum -= before - largest.calculatedSize
      }
    },
  }
}
