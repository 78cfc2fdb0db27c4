/** Reactions on the wire, and the allowed ones. */
import { type Static, Type } from 'typebox'
import { wholeSeconds } from '../../domain/times.ts'
import type { ReactionDocument } from '../../projections/models/reactions/reactions.fold.ts'
import type { Services } from '../../services/services.ts'
import { Nullable } from '../nullable.ts'
import { UserWire, usersById } from '../users/users.ts'

/** The default list of Gitea. */
export const ALLOWED_REACTIONS: readonly string[] = [
  '+1',
  '-1',
  'laugh',
  'hooray',
  'confused',
  'heart',
  'rocket',
  'eyes',
]

export const ReactionWire = Type.Object(
  {
    user: Nullable(UserWire),
    content: Type.String(),
    created_at: Type.String(),
  },
  { title: 'Reaction' },
)

/** Returns reactions as Gitea's `Reaction`, in the given order. One look-up reads all users. */
export async function reactionWires(
  services: Services,
  reactions: readonly Pick<ReactionDocument, 'userId' | 'reaction' | 'createdAt'>[],
): Promise<Static<typeof ReactionWire>[]> {
  const people = await usersById(
    services,
    reactions.map(({ userId }) => userId),
  )
  return reactions.map(({ userId, reaction, createdAt }) => ({
    user: people.get(userId) ?? null,
    content: reaction,
    created_at: wholeSeconds(createdAt),
  }))
}
