/** Random commands to pull requests: moves of their branches, and merges. */
import fc from 'fast-check'
import type { Decision } from '../../src/commands/execution/decider.ts'
import { mergeRefusal } from '../../src/commands/pull-requests/merge-checks.decider.ts'
import * as pull from '../../src/commands/pull-requests/pull-request.decider.ts'
import { isRefusal } from '../../src/errors/refusal.ts'
import type { AccountRef } from '../../src/events/catalog/parts.ts'
import type { PullRequestEvent } from '../../src/events/catalog/pull-requests.ts'
import { MERGE_STYLES } from '../../src/events/catalog/repositories.ts'
import { openDependencies } from './discussion-commands.ts'
import {
  by,
  command,
  DIFF,
  gone,
  isAdmin,
  isWriter,
  mostly,
  nextId,
  oneOf,
  record,
  SHAS,
  sha,
  text,
} from './values.ts'
import type { World } from './world.ts'

const pullRef = record({ repoId: oneOf([1, 1, 2]), index: oneOf([2, 2, 4]) })

const onPull = <Given>(
  name: string,
  given: fc.Arbitrary<Given>,
  decide: (state: pull.ActivePull, by: AccountRef, given: Given, world: World) => Decision<PullRequestEvent>,
) =>
  command(name, record({ ref: pullRef, by, given }), (world, { ref, by, given }) =>
    world.pulls.change(ref, by, (state) =>
      state.status === 'none' ? gone : decide(state, by, given, world),
    ),
  )

const commitFacts = { head: sha, base: sha, mergeable: mostly, conflicts: fc.array(text, { maxLength: 2 }) }
const merging = {
  style: oneOf(MERGE_STYLES),
  scheduling: fc.boolean(),
  expectedHead: fc.option(sha, { freq: 2 }),
  headTip: oneOf([null, null, ...SHAS]),
  checks: oneOf(['success', 'pending'] as const),
  commit: sha,
  deleteBranch: fc.boolean(),
}

/** Merges or schedules as the route does: after the checks of `merge.2`, which are pure as well. */
function decideMerge(
  state: pull.ActivePull,
  by: AccountRef,
  given: Merging,
  world: World,
  scheduledBy?: AccountRef,
): Decision<PullRequestEvent> {
  const { style, scheduling, expectedHead, checks, commit, deleteBranch } = given
  const request = {
    style,
    scheduling,
    force: false,
    ...(expectedHead !== null && { expectedHead }),
    ...(scheduledBy && { scheduledBy }),
  }
  const refusal = mergeRefusal(state, request, {
    mayMerge: isWriter(by),
    granted: { access: isWriter(by) ? 'write' : 'read', through: 'collaborator' },
    allowedStyles: MERGE_STYLES.filter((allowed) => allowed !== 'squash'),
    protection: undefined,
    officialReviews: new Set(),
    checks,
    checksRevision: null,
    headTip: given.headTip ?? state.head.sha,
    baseTip: state.base.sha,
    outdated: false,
    wouldBeSigned: false,
    openDependencies: openDependencies(world, state).map(({ index }) => `#${index}`),
  })
  if (refusal !== undefined) return refusal
  const merge = { style, commit, head: state.head.sha, mergeBase: state.mergeBase, by, deleteBranch }
  // It has happened already, so it cannot be scheduled.
  if (style === 'manually-merged') return pull.decideManuallyMerged(state, merge)
  if (scheduling) {
    return pull.decideSchedule(state, {
      style,
      title: '',
      message: '',
      deleteBranch,
      by,
      expectedHead,
      waitsFor: [],
    })
  }
  const { branch: baseBranch, sha: from } = state.base
  return pull.decideStartMerge(state, { ...merge, baseBranch, from, message: 'm' })
}
const mergeRequest = record(merging)
type Merging = typeof mergeRequest extends fc.Arbitrary<infer T> ? T : never

export const pullCommands = [
  ...Array.from({ length: 3 }, () => onPull('merge', mergeRequest, decideMerge)),
  onPull('merge as scheduled', mergeRequest, (state, _, given, world) => {
    const { schedule, head } = state
    if (schedule === null) return []
    const expectedHead = schedule.expectedHead ?? head.sha
    const request = { ...given, ...schedule, expectedHead, scheduling: false }
    const decision = decideMerge(state, schedule.by, request, world, schedule.by)
    if (!isRefusal(decision)) return decision
    return pull.decideScheduleRefused(state, { head: head.sha, reason: decision.message, errors: [] })
  }),
  onPull('merge has ended', record({ commit: fc.option(sha), ends: mostly }), (state, _, given) => {
    const commit = given.commit ?? state.merging?.commit ?? ''
    return given.ends ? pull.decideMerged(state, commit) : pull.decideMergeFailed(state, commit, 'moved')
  }),
  onPull('head moved', sha, (state, by, to) =>
    pull.decideHeadMoved(state, { to, mergeBase: state.mergeBase, diff: DIFF }, isWriter(by), {
      changed: to !== SHAS[1],
      dismissStale: isAdmin(by),
    }),
  ),
  onPull('merge base moved', record({ head: sha, to: sha }), (state, by, moved) =>
    pull.decideMergeBaseMoved(
      state,
      { ...moved, diff: DIFF },
      { changed: moved.to !== SHAS[1], dismissStale: isAdmin(by) },
    ),
  ),
  onPull('mergeability', record(commitFacts), (state, _, checked) => pull.decideMergeability(state, checked)),
  onPull(
    'change base',
    record({ ...commitFacts, branch: oneOf(['main', 'next']) }),
    (state, by, { branch, base: at, mergeable, conflicts }) => {
      if (branch === state.base.branch || state.status === 'merged') return []
      const base = { repoId: state.repoId, branch, sha: at }
      const official = new Set(state.reviews.filter(({ reviewer }) => isWriter(reviewer)).map(({ id }) => id))
      const content = { changed: at !== SHAS[1], dismissStale: isAdmin(by), official }
      const target = { base, mergeBase: at, diff: DIFF, mergeable, conflicts, content }
      return pull.decideTargetBranch(state, target, by)
    },
  ),
  onPull(
    'branch renamed',
    record({ side: oneOf(['head', 'base']), to: oneOf(['main', 'next']) }),
    (state, _, { side, to }) => {
      const { repoId, branch: from } = side === 'head' ? state.head : state.base
      // A branch does not get the name of another one.
      const isTaken = [state.head, state.base].some((at) => at.repoId === repoId && at.branch === to)
      return isTaken ? [] : pull.decideBranchRenamed(state, { repoId, from, to })
    },
  ),
  onPull('maintainer edit', fc.boolean(), (state, _, allowed) => pull.decideMaintainerEdit(state, allowed)),
  onPull('delete head branch', fc.nat(), (state, _, commentId) =>
    pull.decideHeadBranchDeleted(state, commentId),
  ),
  onPull('branch gone', oneOf(['head', 'base'] as const), (state, _, side, world) =>
    pull.decideBranchGone(state, side, nextId(world)),
  ),
  onPull('keep head branch', text, (state, _, reason) => pull.decideHeadBranchKept(state, reason)),
  onPull('cancel schedule', fc.constant(null), (state, by) =>
    pull.decideCancelSchedule(state, by, isAdmin(by)),
  ),
]
