/** Decides which issues and pull requests of a repository are pinned, and their order. Pure. */

import { refuse } from '../../errors/refusal.ts'
import type { PinEvent } from '../../events/catalog/issues.ts'
import { MAX_PINS, NO_PINS, pinned } from '../../events/pins.ts'
import type { Decision } from '../execution/decider.ts'
import type { RepositoryState } from './repository.decider.ts'

/** The issue or pull request to pin or move. */
interface ToPin {
  index: number
  isPull: boolean
}

const gone = refuse.notFound('repository not found')

/** `next` returns the new list, or a refusal; the same list changes nothing. */
function decide(
  state: RepositoryState,
  { isPull }: ToPin,
  next: (before: readonly number[]) => readonly number[] | ReturnType<typeof refuse.unprocessable>,
): Decision<PinEvent> {
  if (state.status !== 'active') return gone
  const from = pinned(state.pins ?? NO_PINS, isPull)
  const to = next(from)
  if ('refused' in to) return to
  return to === from ? [] : [{ type: 'PinsChanged', data: { repoId: state.id, isPull, from, to } }]
}

/** Pins it last. */
export function decidePin(state: RepositoryState, of: ToPin): Decision<PinEvent> {
  return decide(state, of, (before) => {
    if (before.includes(of.index)) return before
    const what = of.isPull ? 'pull requests' : 'issues'
    return before.length < MAX_PINS
      ? [...before, of.index]
      : refuse.unprocessable(`at most ${MAX_PINS} ${what} of a repository can be pinned`)
  })
}

export function decideUnpin(state: RepositoryState, of: ToPin): Decision<PinEvent> {
  return decide(state, of, (before) =>
    before.includes(of.index) ? before.filter((index) => index !== of.index) : before,
  )
}

/** Moves a pin to a position, from 1. Ignores one that is not pinned, as in Gitea. */
export function decideMovePin(
  state: RepositoryState,
  of: ToPin,
  position: number | undefined,
): Decision<PinEvent> {
  return decide(state, of, (before) => {
    if (!before.includes(of.index)) return before
    if (position === undefined || position > before.length) {
      return refuse.unprocessable(`position: must be a number from 1 to ${before.length}`)
    }
    if (before[position - 1] === of.index) return before
    return before.filter((index) => index !== of.index).toSpliced(position - 1, 0, of.index)
  })
}
