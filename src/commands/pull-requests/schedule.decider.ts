/** Schedules a merge that waits for its checks: `merge.6`. */

import { isRefusal, refuse } from '../../errors/refusal.ts'
import type { PullRequestEvent } from '../../events/catalog/pull-requests.ts'
import type { Services } from '../../services/services.ts'
import { pulls } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import type { Decision } from '../execution/decider.ts'
import { isMergeStyle, mergeRefusal } from './merge-checks.decider.ts'
import { mergeFacts, mergeWaits } from './merge-facts.ts'
import type { Merge } from './merge-pull.ts'
import { decideSchedule, type PullState } from './pull-request.decider.ts'

/**
 * Schedules the merge, under the lock of merges. When the head's checks have succeeded, it schedules nothing and
 * resolves to the merge of that head, to be made at once. Without anything to wait for, the process merges right after
 * the schedule. @throws Refused as for a merge, and when a merge is scheduled already
 */
export async function scheduleMerge(
  services: Services,
  context: CommandContext,
  merge: Merge,
): Promise<Merge | undefined> {
  const { request } = merge
  const pull = { repoId: merge.repository.id, index: merge.index }
  // The first attempt of a retried request may have merged at once.
  if ((await pulls.ifDone(services, context, pull, 'merge')) !== undefined) return merge
  // A retried request that has scheduled the merge is not decided again.
  let ready: Merge | undefined
  await pulls.change(services, context, pull, 'schedule', async (state) => {
    const decision = await decideScheduleOf(services, state, merge)
    if (state.status !== 'none' && !isRefusal(decision) && decision.length === 0) {
      ready = { ...merge, request: { ...request, scheduling: false, expectedHead: state.head.sha } }
    } else ready = undefined
    return decision
  })
  return ready
}

async function decideScheduleOf(
  services: Services,
  state: PullState,
  { repository, merger, request, fields, deleteBranch }: Merge,
): Promise<Decision<PullRequestEvent>> {
  if (state.status === 'none') return refuse.notFound('pull request not found')
  const { style } = request
  // The settings may have changed while the request waited for the lock.
  const current = (await services.views.repositories.get(`${repository.id}`)) ?? repository
  const facts = await mergeFacts(services, state, current, merger, style)
  const refusal = mergeRefusal(state, request, facts)
  if (refusal !== undefined) return refusal
  // A manual merge has happened already.
  if (!isMergeStyle(style) || style === 'manually-merged') return []
  const { waitsFor, hasChecks } = await mergeWaits(services, current, state)
  if (state.schedule === null && waitsFor.length === 0 && hasChecks) return []
  const by = { id: merger.id, login: merger.login }
  const expectedHead = request.expectedHead ?? null
  return decideSchedule(state, { style, ...fields, deleteBranch, by, expectedHead, waitsFor })
}
