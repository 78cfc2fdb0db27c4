/** Appends changes of comments to the log. */
import { isDeepStrictEqual } from 'node:util'
import type { AccountRef, CommentEvent, IssueRef } from '../../events/domain-events.ts'
import { discussionStream } from '../../events/streams.ts'
import type { CommentDocument } from '../../projections/comments.ts'
import type { Services } from '../../services.ts'
import { inTurn } from '../../turns.ts'
import { append, type CommandContext, type Decision, execute, requireSameRequest } from '../execute.ts'
import { type CommentState, commentDecider } from './comment.ts'

/**
 * All comments of an issue are in one stream, so changes of one would conflict with changes of another and with new
 * comments. Changes take turns on this node to avoid that. Between nodes it is enough that the revision of the stream
 * decides: what others write about other comments leaves the decision as it is.
 */
const turnOf = (stream: string) => `comments of ${stream}`

/**
 * Appends a new comment. No other change of the issue can be a reason to refuse it, so no revision is expected.
 *
 * @throws Refused (unprocessable) when the Idempotency-Key was used with another body
 */
export async function addComment(
  services: Services,
  context: CommandContext,
  issue: IssueRef & { isPull: boolean },
  comment: { commentId: number; author: AccountRef; body: string },
): Promise<void> {
  const { repoId, index } = issue
  const stream = discussionStream(issue)
  const event = { type: 'CommentAdded', data: { repoId, index, ...comment } } as const
  const appended = await inTurn(turnOf(stream), () =>
    append(services.events, context, stream, 'comment', [event], 'any'),
  )
  await requireSameRequest(services.events, context, stream, appended)
}

/**
 * Appends the decided events to the stream of the comment. Resolves to the comment's state after them. `step` names
 * this change within its request.
 *
 * @throws Refused when the decision is a refusal: not found for a comment that is gone
 */
export function changeComment(
  services: Services,
  context: CommandContext,
  comment: CommentDocument,
  step: string,
  decide: (state: CommentState) => Decision<CommentEvent>,
): Promise<CommentState> {
  const stream = discussionStream(comment)
  return inTurn(turnOf(stream), () =>
    execute(services.events, context, {
      stream,
      step,
      decider: commentDecider(comment.id),
      decide,
      isStillValid: (decidedOn: CommentState, now: CommentState) => isDeepStrictEqual(decidedOn, now),
    }),
  )
}
