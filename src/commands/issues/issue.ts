/** The issue aggregate: what it has in common with pull requests, and nothing else. Pure. */
import type { IssueEvent } from '../../events/domain-events.ts'
import { DISCUSSION_EVENTS, type Discussion, evolveDiscussion } from '../../projections/discussion.ts'
import type { Decider } from '../execute.ts'
import { snapshots } from '../snapshots.ts'

export type IssueState = { status: 'none' } | ({ status: 'open' | 'closed' } & Discussion)

export const issueDecider: Decider<IssueState, IssueEvent> = {
  initialState: { status: 'none' },
  snapshots: snapshots(),
  handles: { IssueOpened: true, ...DISCUSSION_EVENTS },
  evolve(state, event) {
    if (event.type === 'IssueOpened') {
      return { ...event.data, status: 'open', closed: false, dependencies: [] }
    }
    if (state.status === 'none') return state
    const next = evolveDiscussion(state, event)
    return { ...next, status: next.closed ? 'closed' : 'open' }
  },
}
