/**
 * The payloads about issues, pull requests and comments, replayed from the log as of the event. Erased texts read as
 * erased.
 */
import type { Static } from 'typebox'
import { commentWire } from '../../api/comments/comments.ts'
import { type LabelWire, labelsByIds, labelWire } from '../../api/labels/labels.ts'
import { usersById } from '../../api/users/users.ts'
import type { LabelRef } from '../../events/catalog/labels.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import type { Envelope } from '../../events/domain-events.ts'
import type { RecordedOf } from '../../events/handlers.ts'
import { isPullStream } from '../../events/streams.ts'
import type { CommentDocument } from '../../projections/models/comments/comments.fold.ts'
import { issueReplayer, pullReplayer } from '../../queries/history/replay/replayers.ts'
import type { Services } from '../../services/services.ts'
import { commentChange } from './comment-history.ts'
import { type PayloadContext, payloadContextOf } from './payload-context.ts'

/** Values before the change. */
export interface Changes {
  title?: { from: string }
  body?: { from: string }
  ref?: { from: string }
  added_labels?: Static<typeof LabelWire>[]
  removed_labels?: Static<typeof LabelWire>[]
}

const issueAt = async (services: Services, context: PayloadContext, index: number, revision: number) =>
  (await (await issueReplayer(services, context, `${index}`, context.viewer)).at({ revision })).body

const pullAt = async (services: Services, context: PayloadContext, index: number, revision: number) =>
  (await (await pullReplayer(services, context, `${index}`, context.viewer)).at({ revision })).body

/** Returns the body of an issue or pull request before the event. */
async function bodyBefore(
  services: Services,
  context: PayloadContext,
  { index }: IssueRef,
  { stream, revision }: Envelope,
) {
  const before = isPullStream(stream) ? pullAt : issueAt
  return (await before(services, context, index, revision - 1)).body
}

/** The event-specific part of a payload. */
export interface DiscussionChange {
  action: string
  /** Changed fields; `body` stands for the body before the event, which the event lacks. */
  changes?: Changes | 'body'
  /** Ids of added and removed labels. */
  labels?: { added: readonly LabelRef[]; removed: readonly LabelRef[] }
  /** Commits before and after the move of the head. */
  head?: { before: string; after: string }
  /** The review, with Gitea's name for its kind. */
  review?: { type: string; content: string }
  /** Id of the user whose review was requested, or no longer is. */
  reviewer?: number
  /** Commit whose keyword closed or reopened it: a merge or a pushed commit. */
  commit?: string
}

/** Returns the labels as they are now, without deleted ones. */
async function labelChanges(
  services: Services,
  { repository }: PayloadContext,
  { added, removed }: NonNullable<DiscussionChange['labels']>,
): Promise<Changes> {
  const wires = async (labels: readonly LabelRef[]) => {
    const found = await labelsByIds(
      services,
      repository,
      labels.map(({ id }) => id),
    )
    return found.map((label) => labelWire(label, repository, services.publicUrl()))
  }
  return { added_labels: await wires(added), removed_labels: await wires(removed) }
}

async function changesOf(
  services: Services,
  context: PayloadContext,
  event: Envelope,
  issue: IssueRef,
  { changes, labels }: DiscussionChange,
): Promise<Changes | undefined> {
  if (labels !== undefined) return labelChanges(services, context, labels)
  if (changes !== 'body') return changes
  return { body: { from: await bodyBefore(services, context, issue, event) } }
}

/** Payload of an event of an issue (`issues` and its kinds) or of a pull request (`pull_request` and its kinds). */
export async function discussionPayload(
  services: Services,
  event: Envelope,
  issue: IssueRef,
  change: DiscussionChange,
) {
  const { action, head, review, reviewer, commit = '' } = change
  const context = await payloadContextOf(services, event, issue.repoId)
  if (context === undefined) return undefined
  const changed = await changesOf(services, context, event, issue, change)
  const common = {
    action,
    number: issue.index,
    ...(changed !== undefined && { changes: changed }),
    repository: context.wire,
    sender: context.sender,
    commit_id: commit,
  }
  if (!isPullStream(event.stream))
    return { ...common, issue: await issueAt(services, context, issue.index, event.revision) }
  const pull_request = await pullAt(services, context, issue.index, event.revision)
  const people = await usersById(services, [reviewer])
  const requested_reviewer = (reviewer === undefined ? undefined : people.get(reviewer)) ?? null
  return { ...common, ...head, pull_request, requested_reviewer, review: review ?? null }
}

/** Payload of a created, changed or deleted comment: `issue_comment`, or `pull_request_comment` of a pull request. */
export async function commentPayload(
  services: Services,
  event: Envelope,
  { repoId, commentId }: IssueRef & { commentId: number },
  action: 'created' | 'edited' | 'deleted',
) {
  const context = await payloadContextOf(services, event, repoId)
  if (context === undefined) return undefined
  const { stream, revision } = event
  const { before, after } = await commentChange(services.events, stream, revision, commentId)
  const comment = action === 'deleted' ? before : after
  if (comment === undefined) return undefined
  const changes = action === 'edited' ? { changes: { body: { from: before?.body ?? '' } } } : {}
  return commentOf(services, context, event, { action, comment, ...changes })
}

/** Payload of a reply to a review comment, sent as a comment of the pull request, as in Gitea. */
export async function replyPayload(services: Services, event: RecordedOf<'ReviewCommentAdded'>) {
  const { repoId, index, commentId: id, author, body } = event.data
  const context = await payloadContextOf(services, event, repoId)
  if (context === undefined) return undefined
  const { at } = event.metadata
  const times = { createdAt: at, updatedAt: at }
  const comment = {
    id,
    repoId,
    index,
    isPull: true,
    author,
    body,
    attachments: [],
    attachmentUuids: [],
    ...times,
  }
  return commentOf(services, context, event, { action: 'created', comment })
}

async function commentOf(
  services: Services,
  context: PayloadContext,
  { stream, revision }: Envelope,
  { comment, ...change }: { action: string; comment: CommentDocument; changes?: Changes },
) {
  const isPull = isPullStream(stream)
  return {
    ...change,
    issue: await issueAt(services, context, comment.index, revision),
    ...(isPull && { pull_request: await pullAt(services, context, comment.index, revision) }),
    comment: await commentWire(services, context.repository, comment),
    repository: context.wire,
    sender: context.sender,
    is_pull: isPull,
  }
}
