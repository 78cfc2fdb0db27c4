/** Commit statuses on the wire, and the look-up of the commit in a path. */
import { type Static, Type } from 'typebox'
import { wholeSeconds } from '../../domain/times.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { CommitState } from '../../events/catalog/statuses.ts'
import { commitFacts } from '../../git/commits/commits.ts'
import { commitOfTagOrId } from '../../git/commits/revision.ts'
import { isObjectId, isPullHead } from '../../git/refs/names.ts'
import { readRef } from '../../git/refs/ref-source.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import {
  type CommitStatusDocument,
  commitChecksId,
} from '../../projections/models/statuses/commit-statuses.fold.ts'
import type { Services } from '../../services/services.ts'
import { refsOf } from '../contents/refs-in-time.ts'
import { Nullable } from '../nullable.ts'
import { RepositoryWire } from '../repositories/repositories.ts'
import { UserWire, usersById } from '../users/users.ts'

export const StatusParams = Type.Object({ owner: Type.String(), repo: Type.String(), sha: Type.String() })

export const CommitStatusWire = Type.Object(
  {
    id: Type.Integer(),
    status: Type.String(),
    target_url: Type.String(),
    description: Type.String(),
    url: Type.String(),
    context: Type.String(),
    creator: Nullable(UserWire),
    created_at: Type.String(),
    updated_at: Type.String(),
  },
  { title: 'CommitStatus' },
)

export const CombinedStatusWire = Type.Object(
  {
    state: Type.String(),
    sha: Type.String(),
    total_count: Type.Integer(),
    statuses: Type.Array(CommitStatusWire),
    repository: RepositoryWire,
    commit_url: Type.String(),
    url: Type.String(),
  },
  { title: 'CombinedStatus' },
)

/** Returns a status as Gitea's `CommitStatus`. `creator`: null when the account is unknown. */
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
    created_at: wholeSeconds(status.createdAt),
    updated_at: wholeSeconds(status.createdAt),
  }
}

/** Returns statuses of one repository, in the given order. One look-up reads all creators. */
export async function statusWires(
  services: Services,
  repository: RepositoryDocument,
  statuses: readonly CommitStatusDocument[],
): Promise<Static<typeof CommitStatusWire>[]> {
  const publicUrl = services.publicUrl()
  const creators = statuses.map(({ creator }) => creator.id)
  const people = await usersById(services, creators)
  return statuses.map((status) =>
    statusWire(status, repository, people.get(status.creator.id) ?? null, publicUrl),
  )
}

/** Returns the repository's URL in the API. */
export function repositoryUrl({ ownerLogin, name }: RepositoryDocument, publicUrl: string): string {
  return `${publicUrl}/api/v1/repos/${ownerLogin}/${name}`
}

/**
 * Returns the id of the commit that `ref` names: a full commit id, the head of a pull request (`refs/pull/1/head`), a
 * branch, a tag, or a commit id abbreviated to at least 7 digits, in this order, so that no branch hides a commit. Branches
 * and full ids of commits with statuses need no git. @throws Refused (not found)
 */
export async function commitOf(
  services: Services,
  repository: RepositoryDocument,
  ref: string,
): Promise<string> {
  const { views } = services
  const refs = refsOf(services, repository.id)
  const id = ref.toLowerCase()
  if (isObjectId(id)) {
    if ((await views.commitChecks.get(commitChecksId(repository.id, id))) !== undefined) return id
    if ((await commitFacts(refs.dir, [id])).has(id)) return id
  }
  if (isPullHead(ref)) {
    const head = await readRef(refs, ref)
    if (head !== null) return head
  }
  const tag = /^refs\/tags\/(.*)$/s.exec(ref)?.[1]
  if (tag === undefined) {
    const branch = await views.branches.get(branchId(repository.id, ref.replace(/^refs\/heads\//, '')))
    if (branch !== undefined) return branch.commit.sha
  }
  const sha = await commitOfTagOrId(refs, tag ?? ref)
  if (sha === undefined)
    throw new Refused(refuse.notFound('there is no branch, tag or commit with that name'))
  return sha
}

/**
 * Returns the combined state, by Gitea's rule: failure if one is a failure or an error; otherwise pending if one is pending
 * or there is none; otherwise success, also with warnings and skipped ones. Merging is stricter: see `checksOutcome`.
 */
export function combinedState(states: readonly CommitState[]): CommitState {
  if (states.includes('failure') || states.includes('error')) return 'failure'
  return states.length === 0 || states.includes('pending') ? 'pending' : 'success'
}
