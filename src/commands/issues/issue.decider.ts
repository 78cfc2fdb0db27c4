/** The issue aggregate: what issues and pull requests have in common. Pure. */
import type { IssueEvent } from '../../events/catalog/issues.ts'
import { type Discussion, discussionChanges, stateOf } from '../../projections/models/issues/discussion.ts'
import { type Decider, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'

type IssueState = { status: 'none' } | ({ status: 'open' | 'closed' } & Discussion)

export const issueDecider: Decider<IssueState, IssueEvent> = deciderOf({
  initialState: { status: 'none' },
  snapshots: snapshots(),
  becomes: {
    IssueOpened: (_, { data }) => ({ ...data, status: 'open', closed: false, dependencies: [] }),
    IssueDeleted: () => ({ status: 'none' }),
  },
  exists: (state: IssueState) => state.status !== 'none',
  changes: {
    ...discussionChanges,
    StatusChanged: (_, { data: { closed } }) => ({ closed, status: stateOf(closed) }),
  },
})
