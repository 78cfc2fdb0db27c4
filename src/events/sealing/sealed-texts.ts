/**
 * Names the event fields with texts that users wrote about issues and pull requests, and defines their sealed form in the
 * log: destroying the key erases the texts. Pure. See docs/decisions/sealed-texts.md.
 */
import type { AccountRef } from '../catalog/parts.ts'
import type { EventType } from '../handlers.ts'
import type { RecordedEvent } from '../store/event-store.ts'

/** Author and time (ISO 8601) of an erasure. Null: an operator, on the command line. */
export interface Erased {
  by: AccountRef | null
  at: string
}

/** All texts of an event: the member `sealed` of its data replaces the fields. */
export interface Sealed {
  /** The id of the key. */
  key: string
  /** Ciphertext, base64url. */
  text: string
  /** Whether the texts are encoded as UTF-16, because UTF-8 cannot encode a lone surrogate. */
  wide?: true
}

const TITLE_AND_BODY = ['title', 'body']
const BODY = ['body']

/** Paths of the texts in the data of each type. Names of files, labels and branches are not texts of users. */
const TEXTS = {
  IssueOpened: TITLE_AND_BODY,
  PullRequestOpened: TITLE_AND_BODY,
  TitleChanged: ['oldTitle', 'title'],
  BodyChanged: BODY,
  CommentAdded: BODY,
  CommentEdited: BODY,
  AttachmentAdded: ['attachment.name'],
  AttachmentRenamed: ['name'],
  IssueFileAdded: ['attachment.name'],
  IssueFileRenamed: ['name'],
  MergeScheduled: ['title', 'message'],
  MergeStarted: ['message'],
  ReviewDrafted: BODY,
  ReviewCommentDrafted: BODY,
  ReviewSubmitted: BODY,
  ReviewCommentAdded: BODY,
  ReviewDismissed: ['message'],
} as const satisfies { readonly [T in EventType]?: readonly string[] }

const textsOf: ReadonlyMap<string, readonly string[]> = new Map(Object.entries(TEXTS))

type Fields = Record<string, unknown>

const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null

/** Extracts the texts of an event, and its data without them; undefined without texts, or with sealed ones. */
export function textsIn({
  type,
  data,
}: Pick<RecordedEvent, 'type' | 'data'>): { texts: string[]; rest: object } | undefined {
  const paths = textsOf.get(type)
  if (paths === undefined || sealedIn(data) !== undefined) return undefined
  const texts: string[] = []
  let rest: Fields = { ...data }
  for (const path of paths) {
    const [field = '', inner] = path.split('.')
    // Not `delete`: V8 is slow with an object that has lost a member.
    const { [field]: value, ...without } = rest
    if (inner === undefined) {
      if (typeof value !== 'string') return undefined
      texts.push(value)
      rest = without
    } else {
      if (!isFields(value)) return undefined
      const { [inner]: text, ...others } = value
      if (typeof text !== 'string') return undefined
      texts.push(text)
      rest[field] = others
    }
  }
  return { texts, rest }
}

/** Returns the sealed texts of an event's data, if any. */
export function sealedIn(data: object): Sealed | undefined {
  return 'sealed' in data && isSealed(data.sealed) ? data.sealed : undefined
}

function isSealed(value: unknown): value is Sealed {
  return (
    isFields(value) &&
    typeof value.key === 'string' &&
    typeof value.text === 'string' &&
    (value.wide === undefined || value.wide === true)
  )
}

/** Restores the texts of an event to their fields. `textAt` returns the n-th text. */
export function withTexts(event: RecordedEvent, textAt: (i: number) => string): RecordedEvent {
  const { position, stream, revision, id, type, metadata } = event
  const { sealed: _, ...data }: Fields = { ...event.data }
  const paths = textsOf.get(type) ?? []
  for (const [i, path] of paths.entries()) {
    const text = textAt(i)
    const dot = path.indexOf('.')
    if (dot < 0) data[path] = text
    else {
      const field = path.slice(0, dot)
      const value = data[field]
      data[field] = { ...(isFields(value) && value), [path.slice(dot + 1)]: text }
    }
  }
  return { position, stream, revision, id, type, data, metadata }
}

/** Returns the event for readers that need no texts: sealed ones become empty. */
export function withoutTexts(event: RecordedEvent): RecordedEvent {
  return sealedIn(event.data) === undefined ? event : withTexts(event, () => '')
}

/** Whether an erasure in the same stream covers the texts of an event: earlier texts of the same comment. */
export function isCovered(
  { revision, data }: Pick<RecordedEvent, 'revision' | 'data'>,
  erasure: { revision: number; data: { commentId: number | null } },
): boolean {
  const { commentId } = erasure.data
  return revision < erasure.revision && (commentId === null || textIdOf(data) === commentId)
}

/**
 * Returns the id by which the texts of an event can be erased separately: of its comment or review. Null: the issue's own
 * texts.
 */
export function textIdOf(data: object): number | null {
  if ('commentId' in data) return typeof data.commentId === 'number' ? data.commentId : null
  return 'reviewId' in data && typeof data.reviewId === 'number' ? data.reviewId : null
}

/** Returns the replacement of an erased text. */
export function erasedText({ by, at }: Erased): string {
  return `erased by ${by?.login ?? 'an operator'} on ${at.slice(0, 10)}`
}

/** The replacement of a text whose key is missing without an erasure. `mergelog verify` reports it. */
export const LOST_TEXT = 'lost: its key is missing'

/** Whether UTF-8 can encode a text: it has no lone surrogate. */
export const isWellFormed = (text: string): boolean => !/\p{Surrogate}/u.test(text)

/** Returns the sealed length of this many bytes: base64url, with the tag. */
const sealedLength = (bytes: number) => Math.ceil(((bytes + 16) * 4) / 3)

/** Overhead of the sealed form, in bytes: names of members, the id of the key, and lengths. */
const SEALED_BYTES = 128

/** Returns the data of an event without its texts, and the sealed size of these; undefined without texts to seal. */
export function sealedSize(
  event: Pick<RecordedEvent, 'type' | 'data'>,
): { rest: object; bytes: number } | undefined {
  const found = textsIn(event)
  if (found === undefined) return undefined
  const isWide = !found.texts.every(isWellFormed)
  const bytes = found.texts.reduce(
    (sum, text) => sum + (isWide ? 2 * text.length : Buffer.byteLength(text)),
    0,
  )
  return { rest: found.rest, bytes: SEALED_BYTES + sealedLength(bytes + 2 * SEALED_BYTES) }
}
