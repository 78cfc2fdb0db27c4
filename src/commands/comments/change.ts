/** Appends changes of comments to the log. */
import { isDeepStrictEqual } from 'node:util'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { CommentEvent } from '../../events/catalog/comments.ts'
import type { AccountRef, IssueRef } from '../../events/catalog/parts.ts'
import { discussionStream } from '../../events/streams.ts'
import { type CommentDocument, commentFold } from '../../projections/models/comments/comments.fold.ts'
import type { Services } from '../../services/services.ts'
import type { Snapshot } from '../../services/writes/snapshots.ts'
import { append } from '../execution/append.ts'
import type { CommandContext } from '../execution/command-context.ts'
import type { Decision } from '../execution/decider.ts'
import { execute } from '../execution/execute.ts'
import { type CommentState, commentDecider } from './comment.decider.ts'

/**
 * All comments of an issue share a stream, so changes of different comments would conflict. This lock prevents that on
 * one node. Between nodes the revision of the stream decides: changes of other comments do not affect the decision.
 */
const mutexKeyOf = (stream: string) => `comments of ${stream}`

/**
 * Appends a new comment. It expects no revision, since it is valid after any change of the issue.
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
  await requireStream(services, stream)
  const event = { type: 'CommentAdded', data: { repoId, index, ...comment } } as const
  const { mutex } = services.writeState
  // Waits for changes that have begun, but not for other new comments: the store appends those together.
  if (mutex.isLocked(mutexKeyOf(stream))) await mutex(mutexKeyOf(stream), async () => {})
  await append(services, context, stream, 'comment', [event], 'any')
}

/**
 * Appends the decided events to the stream of the comment. Resolves to its new state. `step` names this change within
 * its request. @throws Refused, also not found for a deleted comment
 */
export async function changeComment(
  services: Services,
  context: CommandContext,
  comment: CommentDocument,
  step: string,
  decide: (state: CommentState) => Decision<CommentEvent>,
): Promise<CommentState> {
  const stream = discussionStream(comment)
  await requireStream(services, stream)
  return services.writeState.mutex(mutexKeyOf(stream), async () => {
    const known = await knownState(services, stream, comment.id)
    const decider = commentDecider(comment.id, known)
    const isStillValid = (decidedOn: CommentState, now: CommentState) => isDeepStrictEqual(decidedOn, now)
    return await execute(services, context, { stream, step, decider, decide, isStillValid })
  })
}

/** Refuses changes in a truncated or deleted stream, as a full read would. The embedded log has no such streams. */
async function requireStream({ events }: Services, stream: string): Promise<void> {
  if (events.problems === undefined) return
  for await (const _ of events.readStream(stream, { maxCount: 1 })) return
  throw new Refused(refuse.notFound('issue not found'))
}

/** Maximum wait for the read model, in milliseconds. A longer wait costs more than to read the stream. */
const WAIT_MS = 500
const ATTEMPTS = 3

/**
 * Returns the comment from its document, at the end of its stream, which has all comments of the issue. Undefined when
 * the read model lags.
 */
async function knownState(
  { events, projector, readStore }: Services,
  stream: string,
  id: number,
): Promise<Snapshot<CommentState> | undefined> {
  const hasStopped = () =>
    projector
      .status()
      .some(({ name, stopped }) => name === commentFold.collection.name && stopped !== undefined)
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const end = await lastOf(events.readStream(stream, { direction: 'backwards', maxCount: 1 }))
    if (end === undefined || !(await projector.waitFor(end.position, WAIT_MS)) || hasStopped())
      return undefined
    const [stored] = await readStore.getMany(commentFold.collection, [`${id}`])
    // The document may be newer than the end that was read.
    if (stored !== undefined && stored.position > end.position) continue
    return { state: stateOf(stored?.body), revision: end.revision, abandoned: false }
  }
  return undefined
}

function stateOf(document: CommentDocument | undefined): CommentState {
  if (document === undefined) return { status: 'none' }
  const { id: commentId, repoId, index, author, body, attachments } = document
  const files = attachments.map(({ createdAt: _createdAt, erased: _erased, ...file }) => file)
  return { status: 'there', repoId, index, commentId, author, body, attachments: files }
}

async function lastOf<T>(items: AsyncIterable<T>): Promise<T | undefined> {
  let last: T | undefined
  for await (const item of items) last = item
  return last
}
