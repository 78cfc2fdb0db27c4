/** Gathers the facts of a merge decision from git, the log and the repository's settings. */

import { grantedAccess } from '../../access/access.ts'
import { checksOutcome, mayMerge, protectionOf } from '../../access/protection-rules.ts'
import { reviewProblem, reviewRulesOf } from '../../access/review-rules.ts'
import { memberOf } from '../../access/team-membership.ts'
import { timeSlices } from '../../concurrency/event-loop.ts'
import type { MergeWait } from '../../events/catalog/pull-requests.ts'
import { commitRange } from '../../git/commits/commit-range.ts'
import { commitFacts } from '../../git/commits/commits.ts'
import { isAncestor } from '../../git/commits/history.ts'
import { unsignedCommits } from '../../git/commits/signatures.ts'
import { readRefs } from '../../git/refs/refs.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { ReviewFacts } from '../../projections/models/reviews/review-facts.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { checks } from '../execution/aggregates.ts'
import { openDependencies } from '../issues/status-change.ts'
import { officialReviews } from '../reviews/official-reviews.ts'
import { unlessDeleted } from './branches/move-heads.ts'
import type { MergeFacts } from './merge-checks.decider.ts'
import type { ActivePull } from './pull-request.decider.ts'

/** Maximum number of commits whose signatures are verified; beyond it a merge counts as unsigned. */
const MAX_VERIFIED = 10_000

/** Returns the facts of a merge decision. `style` is unchecked. */
export async function mergeFacts(
  services: Services,
  pull: ActivePull,
  repository: RepositoryDocument,
  merger: AccountDocument,
  style: string,
): Promise<MergeFacts> {
  const dir = gitDirOf(services, repository.id)
  const { head, base } = pull
  const protection = protectionOf(repository.protections, base.branch)
  const [tips, dependencies, { outcome, revision }, official] = await Promise.all([
    gitTips(services, pull),
    openDependencies(services, pull.dependencies),
    checksOf(services, repository, pull),
    officialNow(services, repository, pull),
  ])
  const { baseTip } = tips
  // Only when a rule needs the answer: it takes as long as the merge.
  const asks = protection?.blockOutdated || protection?.requireSigned
  const includesBase = !asks || (baseTip !== null && (await isAncestor(dir, baseTip, head.sha)))
  const granted = grantedAccess(repository, merger)
  return {
    mayMerge: !repository.archived && mayMerge(protection, memberOf(repository, merger), granted.access),
    granted,
    allowedStyles: repository.mergeStyles,
    protection,
    officialReviews: official,
    checks: outcome,
    checksRevision: revision,
    ...tips,
    outdated: !includesBase,
    wouldBeSigned:
      protection?.requireSigned === true &&
      baseTip !== null &&
      (await wouldBeSigned(services, dir, baseTip, head.sha, style, includesBase)),
    openDependencies: dependencies.map(({ index }) => `#${index}`),
  }
}

/** Returns the tips of head and base in git; null when the branch or its repository is deleted. */
export async function gitTips(
  services: Services,
  { head, base }: Pick<ActivePull, 'head' | 'base'>,
): Promise<{ headTip: string | null; baseTip: string | null }> {
  const headRef = `refs/heads/${head.branch}`
  const baseRef = `refs/heads/${base.branch}`
  // One git process serves one repository.
  const isOne = head.repoId === base.repoId
  const inBase = refsOf(services, base.repoId, isOne ? [headRef, baseRef] : [baseRef])
  const inHead = isOne ? inBase : refsOf(services, head.repoId, [headRef])
  const [ofHead, ofBase] = await Promise.all([inHead, inBase])
  return { headTip: ofHead.get(headRef) ?? null, baseTip: ofBase.get(baseRef) ?? null }
}

async function refsOf(services: Services, repoId: number, refs: readonly string[]) {
  const found = await readRefs(gitDirOf(services, repoId), refs).catch(unlessDeleted)
  return found ?? new Map<string, string | null>()
}

/**
 * Returns the outcome of the head's checks, of the required contexts only, if any. `any`: whether the head has a check.
 */
async function checksOf(services: Services, repository: RepositoryDocument, pull: ActivePull) {
  const protection = protectionOf(repository.protections, pull.base.branch)
  const contexts = protection?.statusCheck ? protection.contexts : []
  const { state, revision } = await checks.loaded(services, { repoId: repository.id, sha: pull.head.sha })
  const { posted } = state
  const outcome = await checksOutcome({ contexts }, posted, timeSlices().pauseIfOver)
  return { outcome, revision, any: posted.size > 0, required: protection?.statusCheck === true }
}

/**
 * Returns the approvals and requests that are official by present permissions, as far as the base's rules need them.
 */
async function officialNow(
  services: Services,
  repository: RepositoryDocument,
  { base, reviews }: ActivePull,
): Promise<ReadonlySet<number>> {
  const rules = reviewRulesOf(protectionOf(repository.protections, base.branch))
  const asks = ({ kind }: ReviewFacts) =>
    kind === 'approved' ? rules.required > 0 : rules.blockOnRequests && kind.endsWith('request')
  return officialReviews(services, repository, base.branch, reviews.filter(asks))
}

/**
 * Returns what a scheduled merge waits for: the review rules of the base branch and the checks of the head. Without a
 * rule for checks, it waits only if some commit of the repository has had a check: then those of a new head may start
 * late. `hasChecks`: whether the head has a check.
 */
export async function mergeWaits(
  services: Services,
  repository: RepositoryDocument,
  pull: ActivePull,
): Promise<{ waitsFor: MergeWait[]; hasChecks: boolean }> {
  const rules = reviewRulesOf(protectionOf(repository.protections, pull.base.branch))
  const [official, { outcome, any: hasChecks, required }] = await Promise.all([
    officialNow(services, repository, pull),
    checksOf(services, repository, pull),
  ])
  const waitsFor: MergeWait[] = []
  if (reviewProblem(rules, pull.reviews, official) !== undefined) waitsFor.push('reviews')
  if (required) {
    if (outcome !== 'success') waitsFor.push('required-checks')
  } else if (hasChecks) {
    if (outcome !== 'success') waitsFor.push('checks')
  } else if ((await services.views.commitChecks.findOne({ repoId: repository.id })) !== undefined) {
    waitsFor.push('first-check')
  }
  return { waitsFor, hasChecks }
}

/** Returns whether a scheduled merge still waits. */
export async function isWaiting(services: Services, repository: RepositoryDocument, pull: ActivePull) {
  return (await mergeWaits(services, repository, pull)).waitsFor.length > 0
}

/**
 * Returns whether the merge adds only signed commits. The server signs those that it creates. Commits of the head that
 * stay as they are need a trusted signature.
 */
async function wouldBeSigned(
  { config }: Services,
  dir: string,
  base: string,
  head: string,
  style: string,
  includesBase: boolean,
): Promise<boolean> {
  const { signingKey, allowedSigners } = config
  // A rebase keeps the commits when the head includes the base.
  const createsNoCommit = style === 'fast-forward-only' || (style === 'rebase' && includesBase)
  if (!createsNoCommit && signingKey === undefined) return false
  if (style === 'squash' || (style.startsWith('rebase') && !includesBase)) return true
  const range = await commitRange(dir, base, head)
  if (range.total > MAX_VERIFIED) return false
  const ids = range.page(0, MAX_VERIFIED)
  // A rebase drops merge commits, and creates the commits after them anew.
  const isRebuilt = style === 'rebase' && signingKey === undefined && (await hasMerge(dir, ids))
  return !isRebuilt && (await unsignedCommits(dir, ids, { signingKey, allowedSigners })).length === 0
}

const hasMerge = async (dir: string, ids: readonly string[]) =>
  [...(await commitFacts(dir, ids)).values()].some(({ parents }) => parents.length > 1)
