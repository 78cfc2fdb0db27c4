/**
 * Knows who guesses: a network that failed too often, or a range with many networks that did. So who holds many networks
 * side by side is one guesser, who rests and waits as one.
 */
import { rangesAround } from '../../config/address-ranges.ts'
import { createThrottle, type ThrottleLimits } from './throttle.ts'

/** A range with so many guessers is a guesser itself. */
const NETWORKS_OF_RANGE = 16

interface Guessers {
  /** The guesser with this network, which `networkOf` has named: the widest range of several; undefined: it is none. */
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
        // One guesser alone says nothing about those around it.
        if (isKnown) break
      }
      return () => {
        for (const undo of forgive) undo()
      }
    },
  }
}
