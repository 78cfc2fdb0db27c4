/** Carries out a change of what issues and pull requests have in common. */
import type { DiscussionEvent, IssueRef, PullRequestEvent } from '../../events/domain-events.ts'
import { issueStream, pullStream } from '../../events/streams.ts'
import type { Discussion } from '../../projections/discussion.ts'
import { refuse } from '../../refusal.ts'
import type { Services } from '../../services.ts'
import { type CommandContext, type Decision, execute } from '../execute.ts'
import { type ActivePull, pullDecider } from '../pull-requests/pull-request.ts'
import { issueDecider } from './issue.ts'

interface DiscussionDecision {
  issue(discussion: Discussion): Decision<DiscussionEvent> | Promise<Decision<DiscussionEvent>>
  /** The decision for a pull request, where it differs from the one for an issue. */
  pull?(pull: ActivePull): Decision<PullRequestEvent> | Promise<Decision<PullRequestEvent>>
}

export async function changeDiscussion(
  { events }: Services,
  context: CommandContext,
  { repoId, index, isPull }: IssueRef & { isPull: boolean },
  step: string,
  decision: DiscussionDecision,
): Promise<void> {
  if (isPull) {
    await execute(events, context, {
      stream: pullStream(repoId, index),
      step,
      decider: pullDecider,
      decide: (state) => (state.status === 'none' ? gone : (decision.pull ?? decision.issue)(state)),
    })
    return
  }
  await execute(events, context, {
    stream: issueStream(repoId, index),
    step,
    decider: issueDecider,
    decide: (state) => (state.status === 'none' ? gone : decision.issue(state)),
  })
}

const gone = refuse.notFound('issue not found')
