/** Appends what users make of repositories, and ends it when they may not read them any more. */
import type { AccountRef } from '../../events/domain-events.ts'
import type { FollowDocument } from '../../projections/follows.ts'
import type { Services } from '../../services.ts'
import { follows } from '../aggregates.ts'
import type { CommandContext } from '../execute.ts'
import { decideFollow, decideUnfollow, type FollowKind } from './follow.ts'

/** Begins to star or to watch. @throws Refused (unprocessable) when the user has too many already */
export async function follow(
  services: Services,
  context: CommandContext,
  kind: FollowKind,
  data: { repoId: number; user: AccountRef },
): Promise<void> {
  const { repoId, user } = data
  const filter = kind === 'starred' ? { starred: true } : { watched: true }
  const followed = await services.views.follows.count({ userId: user.id, ...filter })
  await follows.change(services, context, { repoId, userId: user.id }, kind, (state) =>
    decideFollow(state, kind, data, followed),
  )
}

/** Ends it. Nothing happens when the user does not. */
export async function unfollow(
  services: Services,
  context: CommandContext,
  kind: FollowKind,
  data: { repoId: number; user: AccountRef },
): Promise<void> {
  const of = { repoId: data.repoId, userId: data.user.id }
  await follows.change(services, context, of, `not ${kind}`, (state) => decideUnfollow(state, kind, data))
}

/** Ends both: as the server itself, for a user who may not read the repository any more. */
export async function endFollow(
  services: Services,
  context: CommandContext,
  { repoId, userId, userLogin }: FollowDocument,
): Promise<void> {
  const data = { repoId, user: { id: userId, login: userLogin } }
  for (const kind of ['starred', 'watched'] as const) {
    await unfollow(services, { ...context, actor: null }, kind, data)
  }
}
