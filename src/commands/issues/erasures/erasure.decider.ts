/** Folds what can be erased of an issue or pull request from its stream, and decides erasures. Pure. */

import { isRefusal, type Refusal, refuse } from '../../../errors/refusal.ts'
import type { DiscussionEvent } from '../../../events/catalog/issues.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import { decode } from '../../../events/codec.ts'
import { type Erased, sealedIn, textIdOf, withoutTexts } from '../../../events/sealing/sealed-texts.ts'
import type { RecordedEvent } from '../../../events/store/event-store.ts'
import type { Decision } from '../../execution/decider.ts'

type Erasure = Extract<DiscussionEvent, { type: 'TextsErased' }>

/** The user and the time of an erasure. */
interface Stamp {
  by: AccountRef | null
  at: string
}

/** Texts of a comment, or of the issue itself, that are not erased. */
interface Texts {
  /** Ids of their keys. */
  keys: string[]
}

interface CommentTexts extends Texts {
  /** False when the comment was deleted; the log still has its texts. */
  isThere: boolean
  /** Uuids of its files. */
  files: Set<string>
}

/** A recorded erasure that is not finished. */
interface PendingErasure extends Erased {
  revision: number
  keys: readonly string[]
  files: readonly string[]
}

export interface Erasable {
  /** Undefined when the issue or pull request does not exist. */
  of: { repoId: number; index: number } | undefined
  /** The last revision; -1 for an empty stream. */
  revision: number
  own: Texts
  /** Uuids of its own files. */
  ownFiles: Set<string>
  comments: Map<number, CommentTexts>
  pending: PendingErasure[]
}

export const emptyErasable = (): Erasable => ({
  of: undefined,
  revision: -1,
  own: { keys: [] },
  ownFiles: new Set(),
  comments: new Map(),
  pending: [],
})

/** Adds the next stored event. Mutates `facts`: a copy for each event would be slow. */
export function addErasable(facts: Erasable, recorded: RecordedEvent): void {
  const event = decode(withoutTexts(recorded))
  facts.revision = recorded.revision
  switch (event.type) {
    case 'IssueOpened':
    case 'PullRequestOpened':
      facts.of = { repoId: event.data.repoId, index: event.data.index }
      break
    case 'CommentAdded':
      facts.comments.set(event.data.commentId, { keys: [], isThere: true, files: new Set() })
      break
    case 'ReviewDrafted':
    case 'ReviewSubmitted':
      beginTexts(facts, event.data.reviewId)
      break
    case 'ReviewCommentDrafted':
    case 'ReviewCommentAdded':
      beginTexts(facts, event.data.commentId)
      break
    case 'ReviewDraftDiscarded':
    case 'ReviewDeleted':
      for (const id of [event.data.reviewId, ...event.data.comments]) {
        const texts = facts.comments.get(id)
        if (texts !== undefined) texts.isThere = false
      }
      break
    case 'CommentDeleted': {
      const comment = facts.comments.get(event.data.commentId)
      if (comment !== undefined) comment.isThere = false
      break
    }
    case 'CommentsDeleted':
      for (const id of event.data.comments) {
        const comment = facts.comments.get(id)
        if (comment === undefined) continue
        comment.isThere = false
        comment.files.clear()
      }
      break
    case 'IssueDeleted':
      facts.ownFiles.clear()
      break
    case 'IssueFileAdded':
      facts.ownFiles.add(event.data.attachment.uuid)
      break
    case 'IssueFileDeleted':
      facts.ownFiles.delete(event.data.uuid)
      break
    case 'AttachmentAdded':
      facts.comments.get(event.data.commentId)?.files.add(event.data.attachment.uuid)
      break
    case 'AttachmentDeleted':
      facts.comments.get(event.data.commentId)?.files.delete(event.data.uuid)
      break
    case 'TextsErased': {
      const { commentId, files, by, at } = event.data
      const keys: string[] = []
      for (const uuid of files) facts.ownFiles.delete(uuid)
      for (const texts of textsOf(facts, commentId)) {
        keys.push(...texts.keys)
        texts.keys = []
        if ('files' in texts) for (const uuid of files) texts.files.delete(uuid)
      }
      facts.pending.push({ revision: recorded.revision, keys, files, by, at })
      break
    }
    case 'ErasureFinished': {
      const { upTo } = event.data
      facts.pending = facts.pending.filter(({ revision }) => revision > upTo)
      break
    }
  }
  const sealed = sealedIn(recorded.data)
  if (sealed === undefined) return
  const commentId = textIdOf(event.data)
  const texts = (commentId === null ? undefined : facts.comments.get(commentId)) ?? facts.own
  texts.keys.push(sealed.key)
}

/** Registers the texts of a review or its comments. A draft may have had some before. */
function beginTexts({ comments }: Erasable, id: number): void {
  if (!comments.has(id)) comments.set(id, { keys: [], isThere: true, files: new Set() })
}

/** Returns the texts that an erasure covers: those of a comment, or all (null). */
function textsOf({ own, comments }: Erasable, commentId: number | null): (Texts | CommentTexts)[] {
  if (commentId === null) return [own, ...comments.values()]
  const comment = comments.get(commentId)
  return comment === undefined ? [] : [comment]
}

/** The answer of a dry run: the number of events with texts, and the comments and files to erase. */
export interface ErasurePreview {
  texts: number
  comments: number[]
  files: string[]
}

/** Lists what `decideErase` would erase. */
export function previewErasure(
  facts: Erasable,
  commentId: number | null,
  by: Stamp,
): ErasurePreview | Refusal {
  const decision = decideErase(facts, commentId, by)
  if (isRefusal(decision)) return decision
  return {
    texts:
      decision.length === 0 ? 0 : textsOf(facts, commentId).reduce((sum, { keys }) => sum + keys.length, 0),
    comments: decision.flatMap(({ data }) => data.comments),
    files: decision.flatMap(({ data }) => data.files),
  }
}

/** Maximum number of comments in an event, to keep its fold short. */
const COMMENTS_PER_EVENT = 500

/** Erases the texts of one comment, or all (null). No event when all are erased already. */
export function decideErase(facts: Erasable, commentId: number | null, { by, at }: Stamp): Decision<Erasure> {
  const { of, comments } = facts
  const ownFiles = commentId === null ? [...facts.ownFiles] : []
  if (of === undefined) return refuse.notFound('issue not found')
  if (commentId !== null && !comments.has(commentId)) return refuse.notFound('comment not found')
  const covered = textsOf(facts, commentId)
  const there = [...comments].filter(
    ([id, { isThere }]) => isThere && (commentId === null || id === commentId),
  )
  const isErased = ({ keys, files }: Texts & Partial<CommentTexts>) =>
    keys.length === 0 && (files === undefined || files.size === 0)
  if (covered.every(isErased) && ownFiles.length === 0) return []
  const events: Erasure[] = []
  for (let i = 0; i === 0 || i < there.length; i += COMMENTS_PER_EVENT) {
    const part = there.slice(i, i + COMMENTS_PER_EVENT)
    const files = [...(i === 0 ? ownFiles : []), ...part.flatMap(([, comment]) => [...comment.files])]
    const data = { ...of, commentId, comments: part.map(([id]) => id), files, by, at }
    events.push({ type: 'TextsErased', data })
  }
  return events
}
