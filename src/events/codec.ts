/** Turns the log's JSON into domain events. Only here does recorded data get its type. */
import { ErrorWithRefusal, logDamaged, type Refusal } from '../refusal.ts'
import type { CommitSummary, DomainEvent, Recorded } from './domain-events.ts'
import { dataShapes } from './event-shapes.ts'
import type { RecordedEvent } from './event-store.ts'
import { GPG_KEY_SCHEMAS } from './gpg-key-events.ts'
import { account } from './ref-shapes.ts'
import { orNull } from './shapes.ts'
import { SOCIAL_SCHEMAS } from './social-events.ts'

/** The current schema number of each event type's data. Older data needs an upcaster below. */
export const schemaOf = {
  UserCreated: 1,
  UserEdited: 1,
  PasswordChanged: 1,
  IdentityLinked: 1,
  UserDeleted: 1,
  TokenCreated: 1,
  TokenDeleted: 1,
  OrganizationCreated: 1,
  HidingStarted: 1,
  OrganizationEdited: 1,
  MemberSet: 1,
  MemberRemoved: 1,
  MembershipShown: 1,
  MembersReleased: 1,
  OrganizationDeleted: 1,
  TeamCreated: 1,
  TeamEdited: 1,
  TeamDeleted: 1,
  TeamMemberAdded: 1,
  TeamMemberRemoved: 1,
  TeamRepositoryAdded: 1,
  TeamRepositoryRemoved: 1,
  RepositoryCreated: 2,
  OwnerVisibilityChanged: 1,
  RepositoryEdited: 1,
  RepositoryDeleted: 1,
  LeftDiscussionsRemoved: 1,
  LeftDocumentsRemoved: 1,
  CollaboratorSet: 1,
  CollaboratorRemoved: 1,
  BranchProtectionSet: 1,
  BranchProtectionRemoved: 1,
  TagProtectionSet: 1,
  TagProtectionRemoved: 1,
  ArchivedChanged: 1,
  TemplateChanged: 1,
  TopicsChanged: 1,
  TransferStarted: 1,
  TransferCanceled: 1,
  RepositoryTransferred: 1,
  RepositoryRenamed: 1,
  LabelCreated: 1,
  LabelEdited: 1,
  LabelDeleted: 1,
  MilestoneCreated: 1,
  MilestoneEdited: 1,
  MilestoneDeleted: 1,
  CommitStatusPosted: 1,
  IssueRead: 1,
  RefsUpdated: 2,
  TitleChanged: 1,
  BodyChanged: 1,
  StatusChanged: 1,
  LabelsChanged: 1,
  MilestoneChanged: 1,
  AssigneesChanged: 1,
  DeadlineChanged: 1,
  IssueRefChanged: 1,
  DependencyAdded: 1,
  DependencyRemoved: 1,
  TextsErased: 1,
  ErasureFinished: 1,
  IssueOpened: 1,
  CommentAdded: 1,
  CommentEdited: 1,
  CommentDeleted: 1,
  AttachmentAdded: 1,
  AttachmentRenamed: 1,
  AttachmentDeleted: 1,
  PullRequestOpened: 2,
  PullRequestHeadMoved: 1,
  MergeabilityChecked: 1,
  MergeBaseMoved: 1,
  TargetBranchChanged: 1,
  PullRequestBranchRenamed: 1,
  MaintainerEditChanged: 1,
  MergeStarted: 2,
  MergeFailed: 1,
  PullRequestMerged: 2,
  HeadBranchDeleted: 1,
  HeadBranchKept: 1,
  MergeScheduled: 2,
  MergeScheduleCanceled: 1,
  ScheduledMergeRefused: 1,
  ReviewDrafted: 1,
  ReviewCommentDrafted: 1,
  ReviewDraftDiscarded: 1,
  ReviewSubmitted: 1,
  ReviewCommentAdded: 1,
  ReviewCommentResolved: 1,
  ReviewDeleted: 1,
  ReviewDismissed: 1,
  ReviewUndismissed: 1,
  ReviewsOutdated: 1,
  ReviewRequested: 1,
  ReviewRequestRemoved: 1,
  TeamReviewRequested: 1,
  TeamReviewRequestRemoved: 1,
  PinsChanged: 1,
  ReferencesRecorded: 1,
  IssueFileAdded: 1,
  IssueFileRenamed: 1,
  IssueFileDeleted: 1,
  DiscussionLocked: 1,
  DiscussionUnlocked: 1,
  ReleaseCreated: 1,
  ReleaseEdited: 1,
  ReleaseDeleted: 1,
  ReleaseAssetAdded: 1,
  ReleaseAssetRenamed: 1,
  ReleaseAssetDeleted: 1,
  ...SOCIAL_SCHEMAS,
  ...GPG_KEY_SCHEMAS,
  PlanScheduled: 1,
  PlanCanceled: 1,
  PlanApplied: 1,
  ModuleVersionsSet: 1,
  AuthorityChanged: 1,
  ConsensusStateStored: 1,
  LfsObjectsAdded: 1,
  LfsLocked: 1,
  LfsUnlocked: 1,
  WebhookCreated: 1,
  WebhookEdited: 1,
  WebhookDeleted: 1,
  WebhookTested: 1,
  NumberTaken: 1,
  ClaimTaken: 1,
  ClaimReleased: 1,
  CreationAbandoned: 1,
} as const satisfies Record<DomainEvent['type'], number>

/** Functions that lift the data of an event from an older schema to the current one, by event type. */
const upcasters: Partial<Record<DomainEvent['type'], (data: object, schema: number) => object>> = {
  PullRequestOpened: (data) => ({ ...data, labels: [], milestone: null, assignees: [], deadline: null }),
  MergeStarted: (data) => ({ ...data, mergeBase: null, deleteBranch: false }),
  MergeScheduled: (data) => ({ ...data, expectedHead: null }),
  RefsUpdated: liftCommits,
  PullRequestMerged: (data) => ({
    ...data,
    style: 'merge',
    mergeBase: null,
    milestone: null,
    deleteBranch: false,
  }),
}

/** Each update of a branch had the commit itself, also when many branches had the same one. */
function liftCommits(data: object): object {
  const updates: { commit?: CommitSummary | null }[] =
    'refs' in data && Array.isArray(data.refs) ? data.refs : []
  const commits = new Map(updates.flatMap(({ commit }) => (commit == null ? [] : [[commit.sha, commit]])))
  return { ...data, refs: updates.map(({ commit: _, ...update }) => update), commits: [...commits.values()] }
}

/**
 * An event that this version of Mergelog cannot understand: a newer version or another program wrote it, or its data is
 * damaged. An operator must act; until then what needs the event cannot be done.
 */
export class UnreadableEvent extends ErrorWithRefusal {
  override readonly name = 'UnreadableEvent'
  readonly refusal: Refusal

  constructor({ position, type, stream, revision }: RecordedEvent, problem: string) {
    super(`event ${position} (${type} in ${stream})${problem}`)
    this.refusal = logDamaged(
      `event ${revision} of stream ${stream} is damaged, or of a newer version of the server: it cannot be read`,
    )
  }
}

/** The types of events that this version knows. */
export const KNOWN_TYPES: readonly string[] = Object.keys(schemaOf)

/** Whether this version knows events of a type. If not, nobody can say whom they concern. */
export function isKnownType(type: string): type is DomainEvent['type'] {
  return Object.hasOwn(schemaOf, type)
}

/**
 * Reads a recorded event as a domain event in its current shape.
 * @throws UnreadableEvent when the type is unknown, the schema is newer than this version's, or the data or the actor
 *   does not have the shape that the type says
 */
export function decode(event: RecordedEvent): Recorded<DomainEvent> {
  const { type, data, metadata } = event
  if (!isKnownType(type) || metadata.schema > schemaOf[type])
    throw new UnreadableEvent(event, ' has an unknown type or schema')
  const lift = upcasters[type]
  const schema = schemaOf[type]
  if (lift !== undefined && metadata.schema !== schema) {
    return decode({ ...event, data: lift(data, metadata.schema), metadata: { ...metadata, schema } })
  }
  if (!isDomainEvent(event)) throw new UnreadableEvent(event, `: ${problemIn(event)}`)
  return event
}

/**
 * Refuses an event that `decode` could not read: in the log it would stop every read model, on all nodes. So a mistake in a
 * command fails one request. @throws TypeError
 */
export function requireReadable({ type, data }: DomainEvent): void {
  const problem = dataShapes.get(type)?.(data)
  if (problem !== undefined) throw new TypeError(`${type} is not recorded: data${problem}`)
}

/** The data has its type's shape, and the metadata names an account as folds read it. */
function isDomainEvent(event: RecordedEvent): event is Recorded<DomainEvent> {
  return problemIn(event) === undefined
}

function problemIn({ type, data, metadata }: RecordedEvent): string | undefined {
  const problem = dataShapes.get(type)?.(data)
  if (problem !== undefined) return `data${problem}`
  const inActor = actor(metadata.actor)
  return inActor === undefined ? undefined : `metadata.actor${inActor}`
}

const actor = orNull(account)
