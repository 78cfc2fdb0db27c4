/** Applies a change that issues and pull requests have in common. */

import { refuse } from '../../errors/refusal.ts'
import type { DiscussionEvent } from '../../events/catalog/issues.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import type { PullRequestEvent } from '../../events/catalog/pull-requests.ts'
import type { Discussion } from '../../projections/models/issues/discussion.ts'
import type { Services } from '../../services/services.ts'
import { issues, pulls } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import type { Decision } from '../execution/decider.ts'
import type { ActivePull } from '../pull-requests/pull-request.decider.ts'

interface DiscussionDecision {
  issue(discussion: Discussion): Decision<DiscussionEvent> | Promise<Decision<DiscussionEvent>>
  /** The decision for a pull request, if it differs. */
  pull?(pull: ActivePull): Decision<PullRequestEvent> | Promise<Decision<PullRequestEvent>>
}

/** Resolves to the state after the change. */
export async function changeDiscussion(
  services: Services,
  context: CommandContext,
  issue: IssueRef & { isPull: boolean },
  step: string,
  decision: DiscussionDecision,
): Promise<Discussion | undefined> {
  const state = issue.isPull
    ? await pulls.change(services, context, issue, step, (state) =>
        state.status === 'none' ? gone : (decision.pull ?? decision.issue)(state),
      )
    : await issues.change(services, context, issue, step, (state) =>
        state.status === 'none' ? gone : decision.issue(state),
      )
  return state.status === 'none' ? undefined : state
}

const gone = refuse.notFound('issue not found')
