import type t from 'tap'

/**
 * Lets a test set the clock of this process, as an operator or a time server may: from then on it is off by this number
 * of milliseconds. Spans of `performance.now()` do not change. The clock is correct again when the test ends.
 */
export function clockOf(test: Pick<typeof t, 'teardown'>): (off: number) => void {
  const real = globalThis.Date
  let off = 0
  globalThis.Date = new Proxy(real, {
    construct: (target, values) =>
      Reflect.construct(target, values.length === 0 ? [real.now() + off] : values),
    get: (target, name) => (name === 'now' ? () => real.now() + off : Reflect.get(target, name)),
  })
  test.teardown(() => {
    globalThis.Date = real
  })
  return (ms) => {
    off = ms
  }
}

export const YEAR_MS = 365 * 24 * 3_600_000
