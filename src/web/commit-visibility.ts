/** Who sees the commits of a pull request as it was at a moment. */
import { type Access, atLeast } from '../access/access.ts'
import { type Asking, isServed } from '../api/contents/reached-objects.ts'
import { pullFor } from '../api/pull-requests/pulls.ts'
import type { Services } from '../services/services.ts'

/**
 * Whether the requester may see the diff between two commits of a pull request's past. As in the API, everyone sees what
 * a ref still reaches. What a force push has removed is only for those who may write to the repository: they could fetch
 * it while it was there.
 */
export async function maySeeCommits(
  services: Services,
  asking: Asking,
  { repoId, index, access }: { repoId: number; index: string; access: Access },
  { from, to }: { from: string; to: string },
): Promise<boolean> {
  if (atLeast(access, 'write')) return true
  const now = await pullFor(services, repoId, index)
  // The API shows it, too.
  if (now.head.sha === to && now.mergeBase === from) return true
  const repository = { id: repoId }
  return (
    (await isServed(services, asking, repository, to)) && (await isServed(services, asking, repository, from))
  )
}
