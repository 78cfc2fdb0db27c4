/**
 * The payloads about issues, pull requests and comments, as these were right after the event: replayed from the log. A
 * text that was erased since then reads as erased.
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

/** What a payload says of a change: the value before it. */
export interface Changes {
  title?: { from: string }
  body?: { from: string }
  ref?: { from: string }
  added_labels?: Static<typeof LabelWire>[]
  removed_labels?: Static<typeof LabelWire>[]
}

const issueAt = async (services: Services, scene: PayloadContext, index: number, revision: number) =>
  (await (await issueReplayer(services, scene, `${index}`, scene.viewer)).at({ revision })).body

const pullAt = async (services: Services, scene: PayloadContext, index: number, revision: number) =>
  (await (await pullReplayer(services, scene, `${index}`, scene.viewer)).at({ revision })).body

/** The body of an issue or pull request before the event. */
async function bodyBefore(
  services: Services,
  scene: PayloadContext,
  { index }: IssueRef,
  { stream, revision }: Envelope,
) {
  const before = isPullStream(stream) ? pullAt : issueAt
  return (await before(services, scene, index, revision - 1)).body
}

/** What a payload says of an event. */
export interface DiscussionChange {
  action: string
  /** What it changed; `body` stands for the body before it, which the event itself does not have. */
  changes?: Changes | 'body'
  /** The ids of the labels that it got and lost. */
  labels?: { added: readonly LabelRef[]; removed: readonly LabelRef[] }
  /** The commits between which the head moved. */
  head?: { before: string; after: string }
  /** The review, as Gitea names its kind. */
  review?: { type: string; content: string }
  /** The id of the user whose review is asked for, or not any more. */
  reviewer?: number
  /** The commit that has closed or reopened it by a keyword: that of a merge, or one that was pushed. */
  commit?: string
}

/** Labels as they are now; a deleted one is left out. */
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
  scene: PayloadContext,
  event: Envelope,
  issue: IssueRef,
  { changes, labels }: DiscussionChange,
): Promise<Changes | undefined> {
  if (labels !== undefined) return labelChanges(services, scene, labels)
  if (changes !== 'body') return changes
  return { body: { from: await bodyBefore(services, scene, issue, event) } }
}

/**
 * An event of an issue (`issues` and what belongs to it) or of a pull request (`pull_request`
 * and what belongs to it).
 */
export async function discussionPayload(
  services: Services,
  event: Envelope,
  issue: IssueRef,
  told: DiscussionChange,
) {
  const { action, head, review, reviewer, commit = '' } = told
  const scene = await payloadContextOf(services, event, issue.repoId)
  if (scene === undefined) return undefined
  const changed = await changesOf(services, scene, event, issue, told)
  const common = {
    action,
    number: issue.index,
    ...(changed !== undefined && { changes: changed }),
    repository: scene.wire,
    sender: scene.sender,
    commit_id: commit,
  }
  if (!isPullStream(event.stream))
    return { ...common, issue: await issueAt(services, scene, issue.index, event.revision) }
  const pull_request = await pullAt(services, scene, issue.index, event.revision)
  const people = await usersById(services, [reviewer])
  const requested_reviewer = (reviewer === undefined ? undefined : people.get(reviewer)) ?? null
  return { ...common, ...head, pull_request, requested_reviewer, review: review ?? null }
}

/** A comment was made, changed or deleted (`issue_comment`; of a pull request it is `pull_request_comment`). */
export async function commentPayload(
  services: Services,
  event: Envelope,
  { repoId, commentId }: IssueRef & { commentId: number },
  action: 'created' | 'edited' | 'deleted',
) {
  const scene = await payloadContextOf(services, event, repoId)
  if (scene === undefined) return undefined
  const { stream, revision } = event
  const { before, after } = await commentChange(services.events, stream, revision, commentId)
  const comment = action === 'deleted' ? before : after
  if (comment === undefined) return undefined
  const changes = action === 'edited' ? { changes: { body: { from: before?.body ?? '' } } } : {}
  return commentOf(services, scene, event, { action, comment, ...changes })
}

/** A comment of a review was answered: as Gitea, told as a comment of the pull request. */
export async function replyPayload(services: Services, event: RecordedOf<'ReviewCommentAdded'>) {
  const { repoId, index, commentId: id, author, body } = event.data
  const scene = await payloadContextOf(services, event, repoId)
  if (scene === undefined) return undefined
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
  return commentOf(services, scene, event, { action: 'created', comment })
}

async function commentOf(
  services: Services,
  scene: PayloadContext,
  { stream, revision }: Envelope,
  { comment, ...told }: { action: string; comment: CommentDocument; changes?: Changes },
) {
  const isPull = isPullStream(stream)
  return {
    ...told,
    issue: await issueAt(services, scene, comment.index, revision),
    ...(isPull && { pull_request: await pullAt(services, scene, comment.index, revision) }),
    comment: await commentWire(services, scene.repository, comment),
    repository: scene.wire,
    sender: scene.sender,
    is_pull: isPull,
  }
}
