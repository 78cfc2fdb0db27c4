/**
 * Recorded events on the wire, with all their data.
 *
 * An event may show ids of repositories that the requester may not read: of a dependency, of the head of a pull request,
 * or of the commit that closed an issue. A fork also shows the name of its parent. Texts of deleted comments stay
 * readable, because the log is append-only; erased texts do not.
 */
import { type Static, Type } from 'typebox'
import { isReviewDraft } from '../../events/catalog/reviews.ts'
import { decode, UnreadableEvent } from '../../events/codec.ts'
import type { RecordedEvent } from '../../events/store/event-store.ts'
import { Nullable } from '../nullable.ts'

export const HistoryWire = Type.Object(
  {
    revision: Type.Integer({ description: 'Place of the event in its stream; the first is 0' }),
    position: Type.Integer({ description: 'Place of the event in the whole log; grows with gaps' }),
    id: Type.String(),
    type: Type.String(),
    at: Type.String(),
    actor: Nullable(Type.Object({ id: Type.Integer(), login: Type.String() }), {
      description: 'Account that caused the event; null for the server itself',
    }),
    sudo: Type.Optional(
      Type.Object(
        { id: Type.Integer(), login: Type.String() },
        { description: 'Site admin who acted as the actor' },
      ),
    ),
    stream: Type.String(),
    data: Type.Unsafe<object>({ type: 'object', additionalProperties: true }),
    correlation_id: Type.String({ description: 'Id that all events of one request share' }),
    causation_id: Type.String({ description: 'Id of the request or the event that caused this one' }),
    hash: Nullable(Type.String(), {
      description:
        'SHA-256 of the recorded event, with its texts sealed, and of the previous hash: it covers the stream up to here',
    }),
    previous_hash: Nullable(Type.String(), {
      description: 'Hash of the previous event of the stream; null for the first',
    }),
  },
  { title: 'HistoryEntry' },
)

/** The parts of an event that a requester may see. */
export interface ShownParts {
  /** False: without the pusher's `--push-option` values, which may be meant for the server alone. */
  pushOptions?: false
  /** False: without the facts of a merge decision, which tell how the merger got its access. */
  decision?: false
}

/** Returns the event with its data upcast to the current schema. */
export function historyWire(recorded: RecordedEvent, shown: ShownParts = {}): Static<typeof HistoryWire> {
  const event = upcast(recorded)
  const { revision, position, id, type, stream, metadata } = event
  const { at, actor, sudo, correlationId, causationId, hash = null, previous = null } = metadata
  return {
    revision,
    position,
    id,
    type,
    at,
    actor: actor === null ? null : { id: actor.id, login: actor.login },
    ...(sudo !== undefined && { sudo: { id: sudo.id, login: sudo.login } }),
    stream,
    data: shownData(event, shown),
    correlation_id: correlationId,
    causation_id: causationId,
    hash,
    previous_hash: previous,
  }
}

/** Whether the event has data that the requester may not see. */
export const hasHidden = (event: RecordedEvent, shown: ShownParts) => hiddenField(event, shown) !== undefined

function hiddenField({ type, data }: RecordedEvent, { pushOptions, decision }: ShownParts) {
  if (pushOptions === false && type === 'RefsUpdated' && 'options' in data) return 'options'
  return decision === false && DECIDED.has(type) && 'decision' in data ? 'decision' : undefined
}

const DECIDED: ReadonlySet<string> = new Set(['MergeStarted', 'PullRequestMerged'])

/**
 * Returns the data without the texts and places of a draft review, which only its reviewer may see, without the
 * options of a push, unless the requester may push, and without a merge decision, except for admins.
 */
function shownData(event: RecordedEvent, shown: ShownParts): RecordedEvent['data'] {
  const { type, data } = event
  const hidden = hiddenField(event, shown)
  if (hidden !== undefined) {
    return Object.fromEntries(Object.entries(data).filter(([field]) => field !== hidden))
  }
  if (!isReviewDraft(type)) return data
  return Object.fromEntries(Object.entries(data).filter(([field]) => SHOWN_OF_DRAFT.has(field)))
}

const SHOWN_OF_DRAFT = new Set(['repoId', 'index', 'reviewId', 'commentId', 'reviewer', 'author'])

/** Returns the event as one line of JSON. */
export function historyJson(recorded: RecordedEvent, shown: ShownParts = {}): string {
  return JSON.stringify(historyWire(recorded, shown))
}

/** Returns the upcast event; an event of a newer version as it was recorded. */
function upcast(recorded: RecordedEvent): RecordedEvent {
  try {
    return decode(recorded)
  } catch (error) {
    if (error instanceof UnreadableEvent) return recorded
    throw error
  }
}
