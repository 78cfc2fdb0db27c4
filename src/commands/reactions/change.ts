/** Appends changes of reactions to the stream of their issue or pull request. */
import type { ReactionEvent } from '../../events/catalog/reactions.ts'
import { discussionStream } from '../../events/streams.ts'
import type { ReactionDocument } from '../../projections/models/reactions/reactions.fold.ts'
import { NO_COMMENT } from '../../projections/models/reactions/reactions.fold.ts'
import type { WriteServices } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import type { Decision } from '../execution/decider.ts'
import { execute } from '../execution/execute.ts'
import {
  decideRemoveReaction,
  type ReactionsState,
  type ReactionTarget,
  reactionsDecider,
} from './reactions.decider.ts'

/**
 * Serializes changes of reactions on this node. Other events of the stream affect a decision only if they react to the
 * same text.
 */
export function changeReactions(
  services: WriteServices,
  context: CommandContext,
  target: ReactionTarget & { isPull: boolean },
  step: string,
  decide: (state: ReactionsState) => Decision<ReactionEvent>,
): Promise<ReactionsState> {
  const stream = discussionStream(target)
  const decider = reactionsDecider(target.commentId)
  return services.writeState.mutex(`reactions of ${stream}`, () =>
    execute(services, context, { stream, step, decider, decide }),
  )
}

/** Removes one reaction, for any requester. */
export async function endReaction(
  services: WriteServices,
  context: CommandContext,
  { repoId, index, isPull, commentId, userId, userLogin, reaction }: ReactionDocument,
): Promise<void> {
  const target = { repoId, index, isPull, commentId: commentId === NO_COMMENT ? null : commentId }
  const user = { id: userId, login: userLogin }
  const step = `end reaction ${userId} ${reaction} to ${target.commentId}`
  await changeReactions(services, context, target, step, (state) =>
    decideRemoveReaction(state, target, user, reaction),
  )
}
