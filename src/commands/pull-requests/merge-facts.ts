/** Gathers the facts for the decision on a merge: from git, the log and the settings of the repository. */
import { checksStream } from '../../events/streams.ts'
import { commitRange } from '../../git/commit-range.ts'
import { RepositoryMissing } from '../../git/errors.ts'
import { isAncestor } from '../../git/history.ts'
import { readRefs } from '../../git/refs.ts'
import { unsignedCommits } from '../../git/signatures.ts'
import type { AccountDocument } from '../../projections/accounts.ts'
import type { RepositoryDocument } from '../../projections/repositories.ts'
import { accessTo } from '../../rights/access.ts'
import { checksOutcome, mayMerge, protectionOf } from '../../rights/protection-rules.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { load } from '../execute.ts'
import { openDependencies } from '../issues/open-dependencies.ts'
import { checksDecider } from '../statuses/checks.ts'
import type { MergeFacts } from './merge-checks.ts'
import type { ActivePull } from './pull-request.ts'

/** The signatures of at most this many commits are verified; a merge of more counts as unsigned. */
const MAX_VERIFIED = 10_000

/** The facts for the decision on a merge. `style`: any text. */
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
  const [tips, dependencies, checks] = await Promise.all([
    gitTips(services, pull),
    openDependencies(services, pull.dependencies),
    checksOf(services, repository, pull),
  ])
  const { baseTip } = tips
  // Ask git only when a protection needs the answer: it takes as long as the merge itself.
  const asks = protection?.blockOutdated || protection?.requireSigned
  const includesBase = !asks || (baseTip !== null && (await isAncestor(dir, baseTip, head.sha)))
  return {
    mayMerge: mayMerge(protection, merger.id, accessTo(repository, merger)),
    allowedStyles: repository.mergeStyles,
    protection,
    checks,
    ...tips,
    outdated: !includesBase,
    wouldBeSigned:
      protection?.requireSigned === true &&
      baseTip !== null &&
      (await wouldBeSigned(services, dir, baseTip, head.sha, style, includesBase)),
    openDependencies: dependencies.map(({ index }) => `#${index}`),
  }
}

/** The tips of head and base in git; null when the branch or its repository does not exist any more. */
export async function gitTips(
  services: Services,
  { head, base }: Pick<ActivePull, 'head' | 'base'>,
): Promise<{ headTip: string | null; baseTip: string | null }> {
  const names = [head, base].map(({ branch }) => `refs/heads/${branch}`)
  const [headRef = '', baseRef = ''] = names
  if (head.repoId === base.repoId) {
    const found = await refsOf(services, base.repoId, names)
    return { headTip: found.get(headRef) ?? null, baseTip: found.get(baseRef) ?? null }
  }
  const [ofHead, ofBase] = await Promise.all([
    refsOf(services, head.repoId, [headRef]),
    refsOf(services, base.repoId, [baseRef]),
  ])
  return { headTip: ofHead.get(headRef) ?? null, baseTip: ofBase.get(baseRef) ?? null }
}

async function refsOf(services: Services, repoId: number, refs: readonly string[]) {
  try {
    return await readRefs(gitDirOf(services, repoId), refs)
  } catch (error) {
    if (error instanceof RepositoryMissing) return new Map<string, string | null>()
    throw error
  }
}

/** The outcome of the checks of the head: only of the contexts that the base branch requires, if it requires any. */
export async function checksOf({ events }: Services, repository: RepositoryDocument, pull: ActivePull) {
  const protection = protectionOf(repository.protections, pull.base.branch)
  const contexts = protection?.statusCheck ? protection.contexts : []
  const { state } = await load(events, checksStream(repository.id, pull.head.sha), checksDecider)
  return checksOutcome({ contexts }, state.posted)
}

/**
 * Whether all commits that the merge adds would be signed. The server signs the commits that it makes. A fast-forward
 * makes none, and neither does a rebase when the head includes the base: then a trusted key must have signed the
 * commits themselves.
 */
async function wouldBeSigned(
  { config }: Services,
  dir: string,
  base: string,
  head: string,
  style: string,
  includesBase: boolean,
): Promise<boolean> {
  const makesNone = style === 'fast-forward-only' || (style === 'rebase' && includesBase)
  if (!makesNone) return config.signingKey !== undefined
  const range = await commitRange(dir, base, head)
  if (range.total > MAX_VERIFIED) return false
  const { signingKey, allowedSigners } = config
  const unsigned = await unsignedCommits(dir, range.page(0, MAX_VERIFIED), { signingKey, allowedSigners })
  return unsigned.length === 0
}
