/** Comments on their way into the log. */
import type { AccountRef, CommentEvent, IssueRef } from '../../events/domain-events.ts'
import { discussionStream } from '../../events/streams.ts'
import type { CommentDocument } from '../../projections/comments.ts'
import type { Services } from '../../services.ts'
import { inTurn } from '../../turns.ts'
import { append, type CommandContext, type Decision, execute, requireSameRequest } from '../execute.ts'
import { type CommentState, commentDecider } from './comment.ts'

/**
 * Comments of an issue stand in one stream, so changes of some meet changes of others and those that are new. In
 * turn, none of them gets in another's way; between nodes the stream's revision decides.
 */
const turnOf = (stream: string) => `comments of ${stream}`

/**
 * Appends a new comment, whatever else came to its issue meanwhile: nothing speaks against it.
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
 * Appends what is decided to the stream in which the comment stands; resolves to its state after it. `step`: what
 * this is in its request.
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
    execute(services.events, context, { stream, step, decider: commentDecider(comment.id), decide }),
  )
}
