/** A merge that waits for its checks: merge rule 6, and DESIGN section 8 "scheduled merge". */
import type { PullRequestEvent } from '../../events/domain-events.ts'
import { pullStream } from '../../events/streams.ts'
import type { Services } from '../../services.ts'
import { type CommandContext, type Decision, execute } from '../execute.ts'
import { isRefusal, refuse } from '../refusal.ts'
import { isMergeStyle, mergeRefusal } from './merge-checks.ts'
import { mergeFacts } from './merge-facts.ts'
import type { Merge } from './merge-pull.ts'
import { decideSchedule, type PullState, pullDecider } from './pull-request.ts'

/**
 * Schedules the merge. Resolves to false, and schedules nothing, when the checks of the head have succeeded
 * already: then it is merged at once. @throws Refused as a merge is, and when one is scheduled
 */
export async function scheduleMerge(
  services: Services,
  context: CommandContext,
  merge: Merge,
): Promise<boolean> {
  // A retried request is not decided again: it has scheduled the merge before.
  let isScheduled = true
  await execute(services.events, context, {
    stream: pullStream(merge.repository.id, merge.index),
    step: 'schedule',
    decider: pullDecider,
    decide: async (state) => {
      const decision = await decideScheduleOf(services, state, merge)
      isScheduled = !isRefusal(decision) && decision.length > 0
      return decision
    },
  })
  return isScheduled
}

async function decideScheduleOf(
  services: Services,
  state: PullState,
  { repository, merger, request, fields, deleteBranch }: Merge,
): Promise<Decision<PullRequestEvent>> {
  if (state.status === 'none') return refuse.notFound('pull request not found')
  const { style } = request
  const facts = await mergeFacts(services, state, repository, merger, style)
  const refusal = mergeRefusal(state, request, facts)
  if (refusal !== undefined) return refusal
  // A manual merge has happened already: there is nothing to wait for.
  if (!isMergeStyle(style) || style === 'manually-merged') return []
  if (state.schedule === null && facts.checks === 'success') return []
  const by = { id: merger.id, login: merger.login }
  return decideSchedule(state, { style, ...fields, deleteBranch, by })
}
