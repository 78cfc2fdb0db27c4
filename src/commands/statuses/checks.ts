/** What others say of a commit: the statuses that were posted on it. Pure. */
import type { CheckEvent, CommitState } from '../../events/domain-events.ts'
import { refuse } from '../../refusal.ts'
import { type Decider, deciderOf } from '../decider.ts'
import type { Decision } from '../execute.ts'
import { snapshots } from '../snapshots.ts'

/** Of one commit; a server that checks has dozens at most. */
export const MAX_CONTEXTS = 1000

interface ChecksState {
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

/** Every post is an event, also one that says the same again: it is later, and may describe more. */
export function decidePost(state: ChecksState, status: CheckEvent['data']): Decision<CheckEvent> {
  if (!state.posted.has(status.context) && state.posted.size >= MAX_CONTEXTS) {
    return refuse.unprocessable(`context: a commit has statuses of ${MAX_CONTEXTS} contexts at most`)
  }
  return [{ type: 'CommitStatusPosted', data: status }]
}
