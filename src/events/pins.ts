/** The pinned issues and pull requests of a repository. */
import type { PinEvent } from './catalog/issues.ts'

/** Pinned numbers, in order. */
export interface Pins {
  issues: readonly number[]
  pulls: readonly number[]
}

export const NO_PINS: Pins = { issues: [], pulls: [] }

/** Maximum number of pinned issues of a repository, and of pinned pull requests: Gitea's default. */
export const MAX_PINS = 3

export const pinned = ({ issues, pulls }: Pins, isPull: boolean) => (isPull ? pulls : issues)

export function withPins(before: Pins = NO_PINS, { isPull, to }: PinEvent['data']): Pins {
  return isPull ? { ...before, pulls: to } : { ...before, issues: to }
}

/** Returns the position of an issue or pull request among the pinned ones, from 1; 0 for an unpinned one. */
export function pinOrder({ issues, pulls }: Pins, index: number): number {
  // Issues and pull requests share their numbers.
  return Math.max(issues.indexOf(index), pulls.indexOf(index)) + 1
}
