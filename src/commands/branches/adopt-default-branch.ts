/** The default branch of a repository that was empty, and got other branches than the one that was named for it. */
import { resolveRef } from '../../git/refs/refs.ts'
import { setDefaultBranch } from '../../git/repository/repository.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { repositories } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { branchNames } from '../pull-requests/branches/branch-tips.ts'
import { decideEdit } from '../repositories/repository.decider.ts'

/** What people mean by the default branch, when both are there. */
const PREFERRED = ['main', 'master']

/**
 * Names with a slash are those of topics (`fix/1`), and of copies: git-annex pushes `synced/main` before `main`, and
 * between them the branch of its own notes.
 */
const isMain = (branch: string) => !branch.includes('/') && branch !== 'git-annex'

/**
 * Makes one of the moved branches the default one, when the default branch is not there: as Gitea does at the first push.
 * Otherwise a clone would check out nothing. May be repeated.
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
  // A large push is several events, and git has all of it from the first one on.
  const dir = gitDirOf(services, repoId)
  const isThere = async (branch: string) => (await resolveRef(dir, `refs/heads/${branch}`)) !== null
  if (await isThere(absent)) return
  const branch = await firstOf([...PREFERRED, ...moved.filter(isMain)], isThere)
  if (branch === undefined) return
  // Before the event: after a crash between the two, the branch is still absent in the log, and this is done again.
  await setDefaultBranch(dir, branch)
  const after = await repositories.change(services, context, repoId, `first branch ${branch}`, (state) =>
    state.status === 'active' && state.settings.defaultBranch === absent
      ? decideEdit(state, { defaultBranch: branch }, false)
      : [],
  )
  // Somebody else was first.
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
