/**
 * An index of the history: one small document per event, with its actor, time and repository. The events themselves
 * stay in the log, and queries read them there by their positions.
 */
import type { DomainEvent } from '../../../events/domain-events.ts'
import type { EventMetadata, Position } from '../../../events/store/event-store.ts'
import { isIssueStream } from '../../../events/streams.ts'
import type { Fold } from '../../projector/read-model.ts'

export interface HistoryDocument {
  position: Position
  /** `NO_REPOSITORY` for an event that belongs to no repository. */
  repoId: number
  type: string
  /** The login in lower case; empty for the server. */
  actor: string
  /** Milliseconds since 1970. */
  at: number
  /** Whether only admins of the repository may see it. */
  adminsOnly: boolean
  /** Whether reading it needs the token scope `issue`. */
  issueWords: boolean
}

/** Repository id of events about accounts and organizations, which appear only in the server's history. */
export const NO_REPOSITORY = 0

/**
 * Internal events that are hidden from the history: numbers, claims, read marks, references and work of read models.
 */
const NOT_IN_HISTORY: ReadonlySet<string> = new Set<DomainEvent['type']>([
  'NumberTaken',
  'ClaimTaken',
  'ClaimReleased',
  'CreationAbandoned',
  'IssueRead',
  'NotificationMarked',
  'ReferencesRecorded',
  'LeftDocumentsRemoved',
])

/** Events about access and the protection of branches and tags. Only admins of the repository may see these settings. */
const FOR_ADMINS: ReadonlySet<string> = new Set<DomainEvent['type']>([
  'CollaboratorSet',
  'CollaboratorRemoved',
  'TeamRepositoryAdded',
  'TeamRepositoryRemoved',
  'BranchProtectionSet',
  'BranchProtectionRemoved',
  'WebhookCreated',
  'WebhookEdited',
  'WebhookDeleted',
  'WebhookTested',
  'TagProtectionSet',
  'TagProtectionRemoved',
  'DeployKeyAdded',
  'DeployKeyRemoved',
  'TransferStarted',
  'TransferCanceled',
])

/** Whether an event is about a draft of a release, which readers of the repository do not see. */
const isOfDraft = ({ type, data }: { type: string; data: object }) =>
  MAY_BE_OF_DRAFT.has(type) && 'draft' in data && data.draft === true

/** Types of release events, which are only for admins while the release is a draft. */
const MAY_BE_OF_DRAFT: ReadonlySet<string> = new Set<DomainEvent['type']>([
  'ReleaseCreated',
  'ReleaseEdited',
  'ReleaseDeleted',
  'ReleaseAssetAdded',
  'ReleaseAssetRenamed',
  'ReleaseAssetDeleted',
])

/** Whether only some events of a type are for admins. */
export const mayBeForAdmins = (type: string) => MAY_BE_OF_DRAFT.has(type)

/** Whether only admins of its repository may see an event. */
export const isForAdminsOnly = (event: { type: string; data: object }) =>
  isForAdmins(event.type) || isOfDraft(event)

/** Whether only admins of their repository may see events of a type. */
export const isForAdmins = (type: string) => FOR_ADMINS.has(type)

/** Events that the API shows under the scope `issue`, also when they are of a pull request. */
const ISSUE_WORDS: ReadonlySet<string> = new Set<DomainEvent['type']>([
  'CommentAdded',
  'CommentEdited',
  'CommentDeleted',
  'AttachmentAdded',
  'AttachmentRenamed',
  'AttachmentDeleted',
  'IssueFileAdded',
  'IssueFileRenamed',
  'IssueFileDeleted',
  'ReactionAdded',
  'ReactionRemoved',
  'UsersMentioned',
  'LabelCreated',
  'LabelEdited',
  'LabelDeleted',
  'MilestoneCreated',
  'MilestoneEdited',
  'MilestoneDeleted',
])

/** Whether an event is of an issue, comment, label or milestone. */
export const hasIssueWords = ({ type, stream }: { type: string; stream: string }) =>
  ISSUE_WORDS.has(type) || isIssueStream(stream)

/** Whether an event is part of the history of its repository, or of the server. */
export function isInHistory({ type }: { type: string }): boolean {
  return !NOT_IN_HISTORY.has(type)
}

/** The repository that an event belongs to, or `NO_REPOSITORY`. */
export function repositoryOf({ data }: DomainEvent): number {
  if ('repoId' in data) return data.repoId
  return 'scope' in data && data.scope.kind === 'repository' ? data.scope.repoId : NO_REPOSITORY
}

/** The actor of an event, as documents store it. */
export const actorOf = ({ actor }: EventMetadata) => (actor === null ? '' : actorKey(actor.login))
export const actorKey = (login: string) => login.toLowerCase()

export const historyFold: Fold<HistoryDocument> = {
  collection: {
    name: 'history',
    indexes: [
      { position: 1 },
      { repoId: 1, position: 1 },
      { repoId: 1, adminsOnly: 1, position: 1 },
      { repoId: 1, type: 1, position: 1 },
      { repoId: 1, actor: 1, position: 1 },
      { repoId: 1, actor: 1, adminsOnly: 1, position: 1 },
    ],
    arrays: [],
  },
  version: 3,
  handles: isInHistory,
  begins: isInHistory,
  touches: (event) => (isInHistory(event) ? [`${event.position}`] : []),
  evolve: (_, event) => ({
    position: event.position,
    repoId: repositoryOf(event),
    type: event.type,
    actor: actorOf(event.metadata),
    at: Date.parse(event.metadata.at),
    adminsOnly: isForAdminsOnly(event),
    issueWords: hasIssueWords(event),
  }),
}
