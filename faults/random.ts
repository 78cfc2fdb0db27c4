/** Repeatable random numbers from a seed. */

export interface Random {
  /** A whole number from `min` to `max`, inclusive. */
  between(min: number, max: number): number
  /** A random element. */
  oneOf<T>(first: T, ...others: readonly T[]): T
  /** True with probability 1 / `times`. */
  isOneIn(times: number): boolean
  /** The elements in random order. */
  shuffled<T>(values: readonly T[]): T[]
}

/** The generator "mulberry32" with a seed of 32 bits. */
export function randomOf(seed: number): Random {
  let state = seed
  function next(): number {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const between = (min: number, max: number) => min + Math.floor(next() * (max - min + 1))
  return {
    between,
    oneOf(first, ...others) {
      const at = between(0, others.length)
      return others[at - 1] ?? first
    },
    isOneIn: (times) => between(1, times) === 1,
    shuffled: (values) =>
      values
        .map((value) => ({ value, place: next() }))
        .sort((a, b) => a.place - b.place)
        .map(({ value }) => value),
  }
}
