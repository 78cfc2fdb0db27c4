/** A size limit that several caches share: a single one may use most of it. */

interface Sized {
  readonly calculatedSize: number
  /** Evicts the least recently used entry. */
  pop(): unknown
}

export interface SharedLimit {
  /** Adds a cache to the limit and returns it. */
  share<C extends Sized>(cache: C): C
  /** Evicts from the largest cache while the caches exceed the limit. Call it after adding to a cache. */
  keep(): void
}

/** Creates a limit in the units that the caches count. */
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
