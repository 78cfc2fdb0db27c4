/** Records stars and watches of repositories, and ends them when a user loses access. */

import { Refused } from '../../../errors/refusal.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import type { FollowDocument } from '../../../projections/models/repositories/follows.fold.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../../services/services.ts'
import { follows } from '../../execution/aggregates.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { decideFollow, decideUnfollow, type FollowKind } from './follow.decider.ts'

/** Stars or watches a repository. @throws Refused (unprocessable) when the user has too many */
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

/**
 * Makes a user watch a new repository: its owner, or the creator for an organization. Ignores the user's limit being
 * reached.
 */
export async function watchNew(
  services: Services,
  context: CommandContext,
  { repoId, owner, creator }: { repoId: number; owner: AccountDocument; creator: AccountDocument },
): Promise<void> {
  if (!services.config.autoWatchNewRepos) return
  const { id, login } = owner.kind === 'user' ? owner : creator
  try {
    await follow(services, context, 'watched', { repoId, user: { id, login } })
  } catch (error) {
    if (!(error instanceof Refused) || error.refusal.refused !== 'unprocessable') throw error
  }
}

/** Ends a star or watch, if any. */
export async function unfollow(
  services: Services,
  context: CommandContext,
  kind: FollowKind,
  data: { repoId: number; user: AccountRef },
): Promise<void> {
  const of = { repoId: data.repoId, userId: data.user.id }
  await follows.change(services, context, of, `not ${kind}`, (state) => decideUnfollow(state, kind, data))
}

/** Ends star and watch, as the server itself, for a user who has lost access. */
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
