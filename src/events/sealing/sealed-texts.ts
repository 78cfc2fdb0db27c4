/**
 * Which fields of events are texts that users wrote about issues and pull requests, and the form in which the log has
 * them: sealed, so that destroying a key erases them. Pure. See docs/decisions/sealed-texts.md.
 */
import type { AccountRef } from '../catalog/parts.ts'
import type { EventType } from '../handlers.ts'
import type { RecordedEvent } from '../store/event-store.ts'

/** Who erased a text, and when (ISO 8601). Null: an operator, on the command line. */
export interface Erased {
  by: AccountRef | null
  at: string
}

/** The texts of an event, all in one: the member `sealed` of its data, instead of the fields. */
export interface Sealed {
  /** The id of the key. */
  key: string
  /** What the key opens, base64url. */
  text: string
  /** Whether the texts are UTF-16, because UTF-8 cannot hold half of a surrogate pair. */
  wide?: true
}

const TITLE_AND_BODY = ['title', 'body']
const BODY = ['body']

/** The paths of the texts in the data of each type. What a name of a file, label or branch in git says is not theirs. */
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

/** The texts of an event, and its data without them. Undefined when it has none, or they are sealed already. */
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

/** The sealed texts of an event's data; undefined when it has none. */
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

/** The event with its texts in their fields, instead of the sealed form. `textAt`: the n-th text. */
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

/** The event as readers take it who need no texts: sealed ones are empty. */
export function withoutTexts(event: RecordedEvent): RecordedEvent {
  return sealedIn(event.data) === undefined ? event : withTexts(event, () => '')
}

/** Whether an erasure in the same stream covers the texts of an event: they came before it, and are of its comment. */
export function isCovered(
  { revision, data }: Pick<RecordedEvent, 'revision' | 'data'>,
  erasure: { revision: number; data: { commentId: number | null } },
): boolean {
  const { commentId } = erasure.data
  return revision < erasure.revision && (commentId === null || textIdOf(data) === commentId)
}

/** The id by which the texts of an event can be erased alone: of its comment or review. Null: they are the issue's own. */
export function textIdOf(data: object): number | null {
  if ('commentId' in data) return typeof data.commentId === 'number' ? data.commentId : null
  return 'reviewId' in data && typeof data.reviewId === 'number' ? data.reviewId : null
}

/** What is shown instead of an erased text. */
export function erasedText({ by, at }: Erased): string {
  return `erased by ${by?.login ?? 'an operator'} on ${at.slice(0, 10)}`
}

/** What is shown instead of a text whose key is missing though nobody erased it. `mergelog verify` names it. */
export const LOST_TEXT = 'lost: its key is missing'

/** Whether UTF-8 can hold a text: it has no half of a surrogate pair. */
export const isWellFormed = (text: string): boolean => !/\p{Surrogate}/u.test(text)

/** The bytes of a text of this length when it is sealed: base64url, with the tag. */
const sealedLength = (bytes: number) => Math.ceil(((bytes + 16) * 4) / 3)

/** What the sealed form adds besides the text: the names of its members, the id of the key, and lengths. */
const SEALED_BYTES = 128

/**
 * The data of an event without its texts, and the bytes that these take when they are sealed; undefined when nothing
 * is to be sealed.
 */
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
