/** What the data of each event type looks like, for the check of events as they are read. */
import {
  type Attachment,
  type BranchPoint,
  type BranchProtection,
  COMMIT_STATES,
  type CommitSummary,
  type DiffStat,
  type IssueRef,
  type LabelRef,
  type LabelScope,
  type LabelSettings,
  type LeftDocuments,
  MERGE_STYLES,
  type MergeSettings,
  type MergeStyle,
  type MilestoneRef,
  type MilestoneSettings,
  type OrganizationSettings,
  type Permission,
  type RefUpdate,
  type RepositorySettings,
  type Signature,
  type StatusCause,
  type UserSettings,
  VISIBILITIES,
  type Visibility,
} from './domain-events.ts'
import { gpgKeyFields } from './gpg-key-shapes.ts'
import type { EventOf, EventType } from './handlers.ts'
import { issueFileShapes } from './issue-file-shapes.ts'
import { lfsFields } from './lfs-shapes.ts'
import { listingShapes } from './listing-shapes.ts'
import { REF_CAUSES, type TagTime } from './ref-causes.ts'
import { account, issue } from './ref-shapes.ts'
import { referenceShapes } from './reference-shapes.ts'
import { releaseShapes } from './release-shapes.ts'
import { reviewRules, reviewShapes } from './review-shapes.ts'
import {
  type AnyCheck,
  type Check,
  type Checks,
  fields,
  flag,
  list,
  object,
  optional,
  orNull,
  partial,
  text,
  whole,
  word,
} from './shapes.ts'
import { socialFields } from './social-shapes.ts'
import { tagProtectionShapes } from './tag-protection-shapes.ts'
import { teamShapes } from './team-shapes.ts'
import { transferShapes } from './transfer-shapes.ts'
import type { ModuleVersion, UpgradePlan } from './upgrade-events.ts'
import { webhookShapes } from './webhook-shapes.ts'

type DataOf<T extends EventType> = EventOf<T>['data']

/** An account as events name it. */
const permission: Check<Permission> = word('read', 'write', 'admin')
const style: Check<MergeStyle> = word(...MERGE_STYLES)
const accounts = list(account)
const visibility: Check<Visibility> = word(...VISIBILITIES)

const userSettings: Checks<UserSettings> = {
  email: text,
  fullName: text,
  description: text,
  location: text,
  website: text,
  showEmail: flag,
  siteAdmin: flag,
  active: flag,
  prohibitLogin: flag,
  mustChangePassword: flag,
}
const organizationSettings: Checks<OrganizationSettings> = {
  fullName: text,
  description: text,
  email: text,
  location: text,
  website: text,
  visibility,
}
const settings: Checks<RepositorySettings> = {
  name: text,
  description: text,
  website: text,
  private: flag,
  defaultBranch: text,
}
const mergeSettings: Checks<Required<MergeSettings>> = {
  mergeStyles: list(style),
  defaultMergeStyle: style,
  allowRebaseUpdate: flag,
  deleteBranchAfterMerge: flag,
  defaultMaintainerEdit: flag,
}
const protection = object<BranchProtection>({
  id: whole,
  rule: text,
  priority: whole,
  push: flag,
  pushers: orNull(list(whole)),
  pusherTeams: optional(list(whole)),
  mergerTeams: optional(list(whole)),
  mergers: orNull(list(whole)),
  statusCheck: flag,
  contexts: list(text),
  requireSigned: flag,
  blockOutdated: flag,
  blockAdminOverride: flag,
  reviews: optional(reviewRules),
  createdAt: text,
  updatedAt: text,
})

const ofRepository = object<Extract<LabelScope, { kind: 'repository' }>>({
  kind: word('repository'),
  repoId: whole,
})
const ofOrganization = object<Extract<LabelScope, { kind: 'organization' }>>({
  kind: word('organization'),
  organizationId: whole,
})
const scope: Check<LabelScope> = (value) =>
  ofOrganization(value) === undefined ? undefined : ofRepository(value)
const label: Checks<LabelSettings> = {
  name: text,
  color: text,
  description: text,
  exclusive: flag,
  archived: flag,
}
const labelRefs = list(object<LabelRef>({ id: whole, name: text }))

const milestone: Checks<MilestoneSettings> = {
  title: text,
  description: text,
  state: word('open', 'closed'),
  dueOn: orNull(text),
}
const milestoneRef = orNull(object<MilestoneRef>({ id: whole, title: text }))

const signature = object<Signature>({ name: text, email: text, date: text })
const commit = object<CommitSummary>({
  sha: text,
  message: text,
  author: signature,
  committer: signature,
  isSigned: optional(flag),
})
const ref = object<RefUpdate>({ ref: text, from: orNull(text), to: orNull(text) })
const branch = object<BranchPoint>({ repoId: whole, branch: text, sha: text })
const diff = object<DiffStat>({ additions: whole, deletions: whole, changedFiles: whole })

const opened = {
  ...issue,
  id: whole,
  poster: account,
  title: text,
  body: text,
  labels: labelRefs,
  milestone: milestoneRef,
  assignees: accounts,
  deadline: orNull(text),
}
const comment = { ...issue, commentId: whole }
const attachment = object<Attachment>({ id: whole, uuid: text, name: text, size: whole, uploader: account })
const claim: Checks<DataOf<'ClaimTaken'>> = { key: text, holder: text }

const fieldsOf: { readonly [T in EventType]: Checks<DataOf<T>> } = {
  UserCreated: { id: whole, login: text, email: text, fullName: text, siteAdmin: flag },
  UserEdited: { user: account, changes: partial<UserSettings>(userSettings) },
  PasswordChanged: { user: account, passwordId: text, mustChangePassword: flag },
  EmailAdded: { user: account, email: text },
  EmailRemoved: { user: account, email: text },
  IdentityLinked: { user: account, issuer: text, subject: text },
  UserDeleted: { user: account },
  TokenCreated: { user: account, tokenId: whole, name: text, lastEight: text, scopes: list(text) },
  TokenDeleted: { user: account, tokenId: whole, name: text },
  OrganizationCreated: { id: whole, login: text, ...organizationSettings },
  HidingStarted: { organization: account, visibility },
  OrganizationEdited: {
    organization: account,
    changes: partial<OrganizationSettings>(organizationSettings),
  },
  MemberSet: { organization: account, user: account, permission },
  MemberRemoved: { organization: account, user: account },
  MembershipShown: { organization: account, user: account, isPublic: flag },
  MembersReleased: { organization: account, members: list(whole) },
  OrganizationDeleted: { organization: account, members: list(whole), teams: list(whole) },
  ...teamShapes,
  RepositoryCreated: {
    ...settings,
    repoId: whole,
    owner: object<DataOf<'RepositoryCreated'>['owner']>({
      id: whole,
      login: text,
      kind: word('user', 'organization'),
    }),
    parent: optional(
      object<NonNullable<DataOf<'RepositoryCreated'>['parent']>>({
        repoId: whole,
        owner: account,
        name: text,
      }),
    ),
    ownerVisibility: optional(word('limited', 'private')),
  },
  OwnerVisibilityChanged: { repoId: whole, visibility },
  RepositoryEdited: {
    repoId: whole,
    changes: partial<RepositorySettings & MergeSettings>({ ...settings, ...mergeSettings }),
  },
  RepositoryDeleted: { repoId: whole, owner: account, name: text, parentId: optional(whole) },
  LeftDocumentsRemoved: {
    repoId: whole,
    left: list(object<LeftDocuments>({ model: text, ids: list(text) })),
  },
  CollaboratorSet: { repoId: whole, user: account, permission },
  CollaboratorRemoved: { repoId: whole, user: account },
  BranchProtectionSet: { repoId: whole, protection },
  BranchProtectionRemoved: { repoId: whole, rule: text },
  ...tagProtectionShapes,
  ...listingShapes,
  ...transferShapes,
  LabelCreated: { id: whole, scope, ...label },
  LabelEdited: { id: whole, scope, changes: partial<LabelSettings>(label) },
  LabelDeleted: { id: whole, scope, name: text },
  MilestoneCreated: { id: whole, repoId: whole, ...milestone },
  MilestoneEdited: { id: whole, repoId: whole, changes: partial<MilestoneSettings>(milestone) },
  MilestoneDeleted: { id: whole, repoId: whole, title: text },
  CommitStatusPosted: {
    id: whole,
    repoId: whole,
    sha: text,
    context: text,
    state: word(...COMMIT_STATES),
    description: text,
    targetUrl: text,
    creator: account,
  },
  IssueRead: { ...issue, user: account },
  RefsUpdated: {
    repoId: whole,
    cause: word(...REF_CAUSES),
    refs: list(ref),
    tags: optional(list(object<TagTime>({ sha: text, at: text }))),
    options: optional(list(text)),
    commits: list(commit),
  },
  TitleChanged: { ...issue, oldTitle: text, title: text },
  BodyChanged: { ...issue, body: text },
  StatusChanged: {
    ...issue,
    closed: flag,
    comment: object<DataOf<'StatusChanged'>['comment']>({ id: whole, kind: word('close', 'reopen') }),
    milestone: milestoneRef,
    branchGone: optional(word('head', 'base')),
    cause: optional(object<StatusCause>({ repoId: whole, pull: orNull(whole), commit: text })),
  },
  LabelsChanged: { ...issue, labels: labelRefs, added: labelRefs, removed: labelRefs },
  MilestoneChanged: { ...issue, from: milestoneRef, to: milestoneRef, closed: flag },
  AssigneesChanged: { ...issue, assignees: accounts, added: accounts, removed: accounts },
  DeadlineChanged: { ...issue, from: orNull(text), to: orNull(text) },
  IssueRefChanged: { ...issue, from: text, to: text },
  DependencyAdded: { ...issue, dependency: object<IssueRef>(issue) },
  DependencyRemoved: { ...issue, dependency: object<IssueRef>(issue) },
  TextsErased: {
    ...issue,
    commentId: orNull(whole),
    comments: list(whole),
    files: list(text),
    by: orNull(account),
    at: text,
  },
  ErasureFinished: { ...issue, upTo: whole, texts: whole, files: whole },
  IssueOpened: { ...opened, ref: optional(text) },
  IssueDeleted: {
    ...issue,
    closed: flag,
    milestone: milestoneRef,
    files: list(text),
  },
  CommentsDeleted: { ...issue, comments: list(whole), files: list(text) },
  CommentAdded: { ...comment, author: account, body: text },
  CommentEdited: { ...comment, body: text },
  CommentDeleted: comment,
  AttachmentAdded: { ...comment, attachment },
  AttachmentRenamed: { ...comment, attachmentId: whole, name: text },
  AttachmentDeleted: { ...comment, attachmentId: whole, uuid: text },
  PullRequestOpened: { ...opened, head: branch, base: branch, mergeBase: text, diff, mergeable: flag },
  PullRequestHeadMoved: {
    ...issue,
    from: text,
    to: text,
    mergeBase: text,
    diff,
    forced: optional(flag),
  },
  MergeabilityChecked: {
    ...issue,
    head: text,
    base: text,
    mergeable: flag,
    conflicts: list(text),
    conflictCount: optional(whole),
  },
  MergeBaseMoved: { ...issue, from: text, to: text, diff },
  TargetBranchChanged: { ...issue, from: branch, base: branch, mergeBase: text, diff },
  PullRequestBranchRenamed: { ...issue, side: word('head', 'base'), from: text, to: text },
  MaintainerEditChanged: { ...issue, allowed: flag },
  MergeStarted: {
    ...issue,
    style,
    baseBranch: text,
    from: text,
    head: text,
    mergeBase: orNull(text),
    commit: text,
    message: text,
    by: account,
    deleteBranch: flag,
  },
  MergeFailed: { ...issue, commit: text, reason: text },
  PullRequestMerged: {
    ...issue,
    style,
    commit: text,
    head: text,
    mergeBase: orNull(text),
    mergedBy: account,
    milestone: milestoneRef,
    deleteBranch: flag,
  },
  HeadBranchDeleted: { ...issue, commentId: whole, branch },
  HeadBranchKept: { ...issue, branch, reason: text },
  MergeScheduled: {
    ...issue,
    style,
    title: text,
    message: text,
    deleteBranch: flag,
    by: account,
    expectedHead: orNull(text),
    waitsFor: optional(list(word('reviews', 'required-checks', 'checks', 'first-check'))),
  },
  MergeScheduleCanceled: { ...issue, by: account },
  ScheduledMergeRefused: {
    ...issue,
    head: text,
    reason: text,
    errors: list(text),
    errorCount: optional(whole),
  },
  ...reviewShapes,
  PinsChanged: { repoId: whole, isPull: flag, from: list(whole), to: list(whole) },
  ...issueFileShapes,
  ...referenceShapes,
  ...releaseShapes,
  ...socialFields,
  ...gpgKeyFields,
  PlanScheduled: { plan: object<UpgradePlan>({ name: text, height: text, info: text }) },
  PlanCanceled: { name: text },
  PlanApplied: { name: text, height: text },
  ModuleVersionsSet: { moduleVersions: list(object<ModuleVersion>({ name: text, version: text })) },
  AuthorityChanged: { address: text },
  ConsensusStateStored: { lastHeight: text, state: text },
  ...lfsFields,
  ...webhookShapes,
  NumberTaken: { sequence: text },
  ClaimTaken: claim,
  ClaimReleased: claim,
  CreationAbandoned: { key: text },
}

/** The check of the data of each event type. */
export const dataShapes: ReadonlyMap<string, AnyCheck> = new Map(
  Object.entries(fieldsOf).map(([type, checks]) => [type, fields(checks)]),
)
