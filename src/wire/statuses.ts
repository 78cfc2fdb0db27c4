/** Commit statuses on the wire, and the commit in a path. */

import { type Static, Type } from 'typebox'
import type { CommitState } from '../events/domain-events.ts'
import { commitFacts } from '../git/commits.ts'
import { isObjectId } from '../git/names.ts'
import { commitOfTagOrId } from '../git/revision.ts'
import { branchId } from '../projections/branches.ts'
import { type CommitStatusDocument, commitChecksId } from '../projections/commit-statuses.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import { gitDirOf, type Services } from '../services.ts'
import { Nullable } from './nullable.ts'
import { RepositoryWire } from './repositories.ts'
import { UserWire, userWire } from './users.ts'

export const StatusParams = Type.Object({ owner: Type.String(), repo: Type.String(), sha: Type.String() })

export const CommitStatusWire = Type.Object({
  id: Type.Integer(),
  status: Type.String(),
  target_url: Type.String(),
  description: Type.String(),
  url: Type.String(),
  context: Type.String(),
  creator: Nullable(UserWire),
  created_at: Type.String(),
  updated_at: Type.String(),
})

export const CombinedStatusWire = Type.Object({
  state: Type.String(),
  sha: Type.String(),
  total_count: Type.Integer(),
  statuses: Type.Array(CommitStatusWire),
  repository: RepositoryWire,
  commit_url: Type.String(),
  url: Type.String(),
})

/** The document as Gitea's `CommitStatus`. */
export function statusWire(
  status: CommitStatusDocument,
  repository: RepositoryDocument,
  creator: Static<typeof UserWire> | null,
  publicUrl: string,
): Static<typeof CommitStatusWire> {
  return {
    id: status.id,
    status: status.state,
    target_url: status.targetUrl,
    description: status.description,
    url: `${repositoryUrl(repository, publicUrl)}/statuses/${status.sha}`,
    context: status.context,
    creator,
    created_at: status.createdAt,
    updated_at: status.createdAt,
  }
}

/** The same for several; who posted them is read at once. */
export async function statusWires(
  services: Services,
  repository: RepositoryDocument,
  statuses: readonly CommitStatusDocument[],
): Promise<Static<typeof CommitStatusWire>[]> {
  const publicUrl = services.publicUrl()
  const ids = new Set(statuses.map(({ creator }) => `${creator.id}`))
  const accounts = await services.views.accounts.getMany([...ids])
  const people = new Map(accounts.map((account) => [account.id, userWire(account, publicUrl)]))
  return statuses.map((status) =>
    statusWire(status, repository, people.get(status.creator.id) ?? null, publicUrl),
  )
}

export function repositoryUrl({ ownerLogin, name }: RepositoryDocument, publicUrl: string): string {
  return `${publicUrl}/api/v1/repos/${ownerLogin}/${name}`
}

/**
 * The commit that `ref` means: a whole commit id, a branch, a tag, or a commit id abbreviated to 7 digits and
 * more, in this order, so that no branch can take the place of a commit. For branches, and for whole ids of
 * commits that have statuses, git is not asked.
 * @throws Refused (not found)
 */
export async function commitOf(
  services: Services,
  repository: RepositoryDocument,
  ref: string,
): Promise<string> {
  const { views } = services
  const dir = gitDirOf(services, repository.id)
  const id = ref.toLowerCase()
  if (isObjectId(id)) {
    if ((await views.commitChecks.get(commitChecksId(repository.id, id))) !== undefined) return id
    if ((await commitFacts(dir, [id])).has(id)) return id
  }
  const tag = /^refs\/tags\/(.*)$/s.exec(ref)?.[1]
  if (tag === undefined) {
    const branch = await views.branches.get(branchId(repository.id, ref.replace(/^refs\/heads\//, '')))
    if (branch !== undefined) return branch.commit.sha
  }
  const sha = await commitOfTagOrId(dir, tag ?? ref)
  if (sha === undefined) throw new Refused(refuse.notFound('no branch, tag or commit of that name'))
  return sha
}

/**
 * What the states say together, by Gitea's rule: failure if there is a failure or an error; pending if nothing
 * was posted or something is pending; or else success, for `warning` too. Merging asks for more: see
 * `checksOutcome`.
 */
export function combinedState(states: readonly CommitState[]): CommitState {
  if (states.includes('failure') || states.includes('error')) return 'failure'
  return states.length === 0 || states.includes('pending') ? 'pending' : 'success'
}
