/** What events make of the pins of a repository. */
import type { PinEvent } from './catalog/issues.ts'

/** The numbers of what is pinned, in their order. */
export interface Pins {
  issues: readonly number[]
  pulls: readonly number[]
}

export const NO_PINS: Pins = { issues: [], pulls: [] }

/** At most so many issues of a repository are pinned, and as many pull requests: as many as Gitea pins by default. */
export const MAX_PINS = 3

export const pinned = ({ issues, pulls }: Pins, isPull: boolean) => (isPull ? pulls : issues)

export function withPins(before: Pins = NO_PINS, { isPull, to }: PinEvent['data']): Pins {
  return isPull ? { ...before, pulls: to } : { ...before, issues: to }
}

/** The place of an issue or pull request among the pinned ones, from 1; 0 when it is not pinned. */
export function pinOrder({ issues, pulls }: Pins, index: number): number {
  // They share their numbers.
  return Math.max(issues.indexOf(index), pulls.indexOf(index)) + 1
}
