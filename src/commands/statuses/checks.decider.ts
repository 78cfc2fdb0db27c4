/** The aggregate of a commit's statuses. Pure. */

import { refuse } from '../../errors/refusal.ts'
import type { CheckEvent, CommitState } from '../../events/catalog/statuses.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'

/** Maximum number of contexts of a commit. CI servers use dozens. */
export const MAX_CONTEXTS = 1000

export interface ChecksState {
  /** The latest state of each context. */
  readonly posted: ReadonlyMap<string, CommitState>
}

export const checksDecider: Decider<ChecksState, CheckEvent> = deciderOf({
  initialState: { posted: new Map() },
  snapshots: snapshots(),
  becomes: {
    CommitStatusPosted(checks, { data: { context, state } }) {
      if (checks.posted.get(context) === state) return checks
      return { posted: new Map(checks.posted).set(context, state) }
    },
  },
})

/** Records each post, even of the same state: the time and the description may differ. */
export function decidePost(state: ChecksState, status: CheckEvent['data']): Decision<CheckEvent> {
  if (!state.posted.has(status.context) && state.posted.size >= MAX_CONTEXTS) {
    return refuse.unprocessable(`context: a commit can have statuses of at most ${MAX_CONTEXTS} contexts`)
  }
  return [{ type: 'CommitStatusPosted', data: status }]
}
