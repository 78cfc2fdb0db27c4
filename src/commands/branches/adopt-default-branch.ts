/** Chooses the default branch at the first push, when the configured one was not pushed. */
import { resolveRef } from '../../git/refs/refs.ts'
import { setDefaultBranch } from '../../git/repository/repository.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { repositories } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { branchNames } from '../pull-requests/branches/branch-tips.ts'
import { decideEdit } from '../repositories/repository.decider.ts'

/** Preferred default branches, best first. */
const PREFERRED = ['main', 'master']

/**
 * Whether a branch may become the default one. Excludes topics (`fix/1`), and what git-annex pushes before `main`:
 * `synced/main` and its own branch.
 */
const isMain = (branch: string) => !branch.includes('/') && branch !== 'git-annex'

/**
 * Makes a pushed branch the default one when the default branch is missing, as Gitea does: otherwise a clone would
 * check out nothing. Idempotent.
 */
export async function adoptDefaultBranch(
  services: Services,
  context: CommandContext,
  repoId: number,
  refs: readonly string[],
): Promise<void> {
  const { views } = services
  const moved = branchNames(refs)
  const repository = moved.length > 0 ? await views.repositories.get(`${repoId}`) : undefined
  if (repository === undefined) return
  const { defaultBranch: absent } = repository
  if ((await views.branches.get(branchId(repoId, absent))) !== undefined) return
  // A large push is several events, but git has all its branches from the first one on.
  const dir = gitDirOf(services, repoId)
  const isThere = async (branch: string) => (await resolveRef(dir, `refs/heads/${branch}`)) !== null
  if (await isThere(absent)) return
  const branch = await firstOf([...PREFERRED, ...moved.filter(isMain)], isThere)
  if (branch === undefined) return
  // Before the event: after a crash in between, the log still lacks the branch, and this runs again.
  await setDefaultBranch(dir, branch)
  const after = await repositories.change(services, context, repoId, `first branch ${branch}`, (state) =>
    state.status === 'active' && state.settings.defaultBranch === absent
      ? decideEdit(state, { defaultBranch: branch }, false)
      : [],
  )
  // Another change came first.
  const named = after.status === 'active' ? after.settings.defaultBranch : branch
  if (named !== branch) await setDefaultBranch(dir, named)
}

async function firstOf(
  names: readonly string[],
  matches: (name: string) => Promise<boolean>,
): Promise<string | undefined> {
  for (const name of names) if (await matches(name)) return name
  return undefined
}
