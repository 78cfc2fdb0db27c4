/** What a merge is decided on, gathered from git, from the log and from the repository's settings. */
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

/** More commits than these are not asked for their signatures. */
const MAX_VERIFIED = 10_000

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
  // Only some protections need to know, and asking git takes as long as the merge itself.
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

/** Where head and base stand in git; null when the branch, or its repository, is gone. */
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

/** What the statuses of the head say, against the contexts that the base branch requires, if it does. */
export async function checksOf({ events }: Services, repository: RepositoryDocument, pull: ActivePull) {
  const protection = protectionOf(repository.protections, pull.base.branch)
  const contexts = protection?.statusCheck ? protection.contexts : []
  const { state } = await load(events, checksStream(repository.id, pull.head.sha), checksDecider)
  return checksOutcome({ contexts }, state.posted)
}

/**
 * Commits that the merge makes are signed with the server's key. A fast-forward makes none, and neither does a
 * rebase of what stands on the base already: then the commits themselves must be signed by a trusted key.
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
