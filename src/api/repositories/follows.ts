/** Watching on the wire. */
import { type Static, Type } from 'typebox'
import { wholeSeconds } from '../../domain/times.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'

/** The requester's subscription of a repository. */
export const WatchInfo = Type.Object(
  {
    subscribed: Type.Boolean(),
    ignored: Type.Boolean(),
    reason: Type.Null(),
    created_at: Type.String(),
    url: Type.String(),
    repository_url: Type.String(),
  },
  { title: 'WatchInfo' },
)

/** Returns the subscription of a user who has watched the repository since that time. */
export function watchInfo(
  { ownerLogin, name }: Pick<RepositoryDocument, 'ownerLogin' | 'name'>,
  since: string,
  publicUrl: string,
): Static<typeof WatchInfo> {
  const repository_url = `${publicUrl}/api/v1/repos/${ownerLogin}/${name}`
  return {
    subscribed: true,
    ignored: false,
    reason: null,
    created_at: wholeSeconds(since),
    url: `${repository_url}/subscription`,
    repository_url,
  }
}
