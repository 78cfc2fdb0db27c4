/**
 * Detects password guessers: networks with too many failures, and ranges with many such networks. So an attacker with
 * many adjacent networks counts as one guesser.
 */
import { rangesAround } from '../../config/address-ranges.ts'
import { createThrottle, type ThrottleLimits } from './throttle.ts'

/** Number of guessing networks that make their range a guesser. */
const NETWORKS_OF_RANGE = 16

interface Guessers {
  /** Returns the guesser for a key of `networkOf`, the widest range if there are several; undefined without one. */
  with(network: string): string | undefined
  /** Counts an attempt as a failure before its outcome is known. The returned function removes it again. */
  attempt(network: string): () => void
}

/** `limits`: after how many failures a network is a guesser, and for how long. */
export function createGuessers(
  { failures, windowMs }: ThrottleLimits,
  now: () => number = () => performance.now(),
): Guessers {
  const sizes = [1, NETWORKS_OF_RANGE, NETWORKS_OF_RANGE ** 2]
  const throttles = sizes.map((size) => createThrottle({ failures: failures * size, windowMs }, now))
  /** The network and the ranges around it, each with its throttle. */
  const levelsOf = (network: string) =>
    [network, ...rangesAround(network)].flatMap((range, i) => {
      const throttle = throttles[i]
      return throttle === undefined ? [] : [{ range, throttle }]
    })
  const isGuesser = ({ range, throttle }: ReturnType<typeof levelsOf>[number]) =>
    throttle.blockedFor(range) !== undefined

  return {
    with: (network) => levelsOf(network).findLast(isGuesser)?.range,
    attempt(network) {
      const forgive: (() => void)[] = []
      for (const level of levelsOf(network)) {
        const isKnown = isGuesser(level)
        forgive.push(level.throttle.attempt(level.range))
        // A single guesser does not implicate its range.
        if (isKnown) break
      }
      return () => {
        for (const undo of forgive) undo()
      }
    },
  }
}
