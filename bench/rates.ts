/** Measures two request rates alternately: the server's rate, and its ceiling. */
import type { Sizes } from './bench.ts'
import { median } from './table.ts'

export const CONNECTIONS = 10
export const WARM_UP_SECONDS = 1

/** Requests per second. */
export interface Rates {
  own: number
  ceiling: number
}

/**
 * Resolves to the median of each rate. Alternates them, so that other load on the host affects both. `afterWarmUp` runs
 * once before the first round.
 */
export async function measureAlternately(
  sizes: Sizes,
  measure: Record<keyof Rates, (seconds: number) => Promise<number>>,
  afterWarmUp = async () => {},
): Promise<Rates> {
  for (const name of ['ceiling', 'own'] as const) await measure[name](WARM_UP_SECONDS)
  await afterWarmUp()
  const [own, ceiling]: [number[], number[]] = [[], []]
  for (let i = 0; i < sizes.rounds; i++) {
    ceiling.push(await measure.ceiling(sizes.seconds))
    own.push(await measure.own(sizes.seconds))
  }
  return { own: median(own), ceiling: median(ceiling) }
}
