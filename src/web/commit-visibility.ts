/** Permission to see the commits of a pull request's past. */
import { type Access, atLeast } from '../access/access.ts'
import { type Caller, isServed } from '../api/contents/reached-objects.ts'
import { pullFor } from '../api/pull-requests/pulls.ts'
import type { Services } from '../services/services.ts'

/**
 * Whether the requester may see the diff between two commits of a pull request's past. As in the API, any reader sees
 * commits that a ref still reaches; commits removed by a force push need write permission.
 */
export async function maySeeCommits(
  services: Services,
  caller: Caller,
  { repoId, index, access }: { repoId: number; index: string; access: Access },
  { from, to }: { from: string; to: string },
): Promise<boolean> {
  if (atLeast(access, 'write')) return true
  const now = await pullFor(services, repoId, index)
  // The API also shows the current diff.
  if (now.head.sha === to && now.mergeBase === from) return true
  const repository = { id: repoId }
  return (
    (await isServed(services, caller, repository, to)) && (await isServed(services, caller, repository, from))
  )
}
