/** Turns the log's JSON into domain events. Only here does recorded data get its type. */
import type { DomainEvent, Recorded } from './domain-events.ts'
import type { RecordedEvent } from './event-store.ts'

/** The current schema number of each event type's data. Older data needs an upcaster below. */
export const schemaOf = {
  UserCreated: 1,
  TokenCreated: 1,
  TokenDeleted: 1,
  OrganizationCreated: 1,
  MemberSet: 1,
  MemberRemoved: 1,
  RepositoryCreated: 1,
  RepositoryEdited: 1,
  RepositoryDeleted: 1,
  CollaboratorSet: 1,
  CollaboratorRemoved: 1,
  BranchProtectionSet: 1,
  BranchProtectionRemoved: 1,
  LabelCreated: 1,
  LabelEdited: 1,
  LabelDeleted: 1,
  MilestoneCreated: 1,
  MilestoneEdited: 1,
  MilestoneDeleted: 1,
  CommitStatusPosted: 1,
  IssueRead: 1,
  RefsUpdated: 1,
  TitleChanged: 1,
  BodyChanged: 1,
  StatusChanged: 1,
  LabelsChanged: 1,
  MilestoneChanged: 1,
  AssigneesChanged: 1,
  DeadlineChanged: 1,
  DependencyAdded: 1,
  DependencyRemoved: 1,
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
  MaintainerEditChanged: 1,
  MergeStarted: 2,
  MergeFailed: 1,
  PullRequestMerged: 2,
  HeadBranchDeleted: 1,
  MergeScheduled: 1,
  MergeScheduleCanceled: 1,
  ScheduledMergeRefused: 1,
  PlanScheduled: 1,
  PlanCanceled: 1,
  PlanApplied: 1,
  ModuleVersionsSet: 1,
  AuthorityChanged: 1,
  ConsensusStateStored: 1,
  NumberTaken: 1,
  ClaimTaken: 1,
  ClaimReleased: 1,
  CreationAbandoned: 1,
} as const satisfies Record<DomainEvent['type'], number>

/** Functions that lift the data of an event from an older schema to the current one, by event type. */
const upcasters: Partial<Record<DomainEvent['type'], (data: object, schema: number) => object>> = {
  PullRequestOpened: (data) => ({ ...data, labels: [], milestone: null, assignees: [], deadline: null }),
  MergeStarted: (data) => ({ ...data, mergeBase: null, deleteBranch: false }),
  PullRequestMerged: (data) => ({
    ...data,
    style: 'merge',
    mergeBase: null,
    milestone: null,
    deleteBranch: false,
  }),
}

/** An event that this version of Mergelog cannot understand. A newer version or another program wrote it. */
export class UnreadableEvent extends Error {
  override readonly name = 'UnreadableEvent'
}

/**
 * Reads a recorded event as a domain event in its current shape.
 * @throws UnreadableEvent when the type is unknown or the schema is newer than this version's
 */
export function decode(event: RecordedEvent): Recorded<DomainEvent> {
  if (!isKnown(event)) {
    throw new UnreadableEvent(
      `event ${event.position} (${event.type} in ${event.stream}) has an unknown type or schema`,
    )
  }
  const lift = upcasters[event.type]
  const schema = schemaOf[event.type]
  if (lift === undefined || event.metadata.schema === schema) return event
  return decode({
    ...event,
    data: lift(event.data, event.metadata.schema),
    metadata: { ...event.metadata, schema },
  })
}

// Only Mergelog writes to its log: if the type and the schema are known, the data has that type's shape.
function isKnown(event: RecordedEvent): event is Recorded<DomainEvent> {
  if (!Object.hasOwn(schemaOf, event.type)) return false
  const current: Record<string, number> = schemaOf
  return event.metadata.schema <= (current[event.type] ?? 0)
}
