/** Describes each event in a pull request's stream with one sentence for people. Pure. */
import { html } from 'ghtml'
import type { CommentEvent } from '../events/catalog/comments.ts'
import type { LabelRef } from '../events/catalog/labels.ts'
import type { NotificationEvent } from '../events/catalog/notifications.ts'
import type { AccountRef, IssueRef } from '../events/catalog/parts.ts'
import type {
  BranchPoint,
  DiffStat,
  MergeWait,
  PullRequestEvent,
  ScheduledMerge,
} from '../events/catalog/pull-requests.ts'
import type { ReactionEvent } from '../events/catalog/reactions.ts'
import type { MergeStyle } from '../events/catalog/repositories.ts'
import type { Side, Verdict } from '../events/catalog/reviews.ts'
import { handledBy } from '../events/handlers.ts'
import { commit, count, day, type PageLinks, person } from './format.ts'

export type TimelineEvent =
  | PullRequestEvent
  | CommentEvent
  | ReactionEvent
  | Extract<NotificationEvent, { type: 'UsersMentioned' }>

/** The data of an event by its type. */
type TimelineData = { [E in TimelineEvent as E['type']]: E['data'] }

/** The kind of an event decides how the timeline marks it. */
type Kind = 'opened' | 'talk' | 'code' | 'field' | 'check' | 'merge' | 'merged' | 'closed' | 'failed'

export interface EventDescription {
  kind: Kind
  /** Markup that follows the name of the user in the sentence: `closed this pull request`. */
  action: string
  /** Plain text that users wrote, or the reason of a failure. It is shown below the sentence. */
  text?: string
}

const STYLES = {
  merge: 'a merge commit',
  rebase: 'a rebase',
  'rebase-merge': 'a rebase and a merge commit',
  squash: 'one squashed commit',
  'fast-forward-only': 'a fast-forward',
  'manually-merged': 'a merge by hand',
} as const satisfies Record<MergeStyle, string>

const VERDICTS = {
  approved: 'approved',
  rejected: 'requested changes to',
  comment: 'reviewed',
} as const satisfies Record<Verdict, string>

const lineName = (line: number, side: Side) =>
  line === 0 ? '' : `line ${line} of ${side === 'old' ? 'the old version of ' : ''}`

const branch = ({ branch }: Pick<BranchPoint, 'branch'>) => html`<code><bdi>${branch}</bdi></code>`
const named = (name: string) => html`<b><bdi>${name}</bdi></b>`
const people = (page: PageLinks, accounts: readonly AccountRef[]) =>
  list(accounts.map(({ login }) => person(page, login)))
const labels = (refs: readonly LabelRef[]) =>
  `${refs.length === 1 ? 'the label' : 'the labels'} ${list(refs.map(({ name }) => named(name)))}`
const stat = ({ additions, deletions, changedFiles }: DiffStat) =>
  `${count(changedFiles, 'file')}, +${additions} −${deletions}`

/**
 * Joins items as `a`, `a and b`, `a, b and c`. Of more than 12 items, it lists 10 and the number of further ones.
 * `count` is the total when the items are incomplete.
 */
function list(items: readonly string[], count = items.length): string {
  const first = items.slice(0, 10)
  const shown = count > 12 || count > items.length ? [...first, `${count - first.length} more`] : items
  return shown.length < 2 ? (shown[0] ?? '') : `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`
}

const dependencyName = (own: IssueRef, { repoId, index }: IssueRef) =>
  repoId === own.repoId ? `#${index}` : `#${index} of another repository`

const reactedTo = (commentId: number | null) => (commentId === null ? 'this pull request' : 'a comment')

const counted = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`

const WAITS: { readonly [W in MergeWait]: string } = {
  reviews: 'the reviews that the branch requires',
  'required-checks': 'the required checks',
  checks: 'its checks',
  'first-check': 'the first check of its head',
}

const waiting = (waitsFor: readonly MergeWait[]) =>
  waitsFor.length === 0
    ? ', which waits for nothing'
    : `, which waits for ${list(waitsFor.map((wait) => WAITS[wait]))}`

/** The action of scheduling a merge, as part of a sentence. */
export const scheduledMerge = ({ style, expectedHead, waitsFor }: ScheduledMerge, page: PageLinks): string =>
  `scheduled the merge${expectedHead === null ? '' : ` of ${commit(page, expectedHead)}`} as ${STYLES[style]}${waiting(waitsFor)}`

const SENTENCES: {
  readonly [T in keyof TimelineData]: (data: TimelineData[T], page: PageLinks) => EventDescription
} = {
  PullRequestOpened: ({ head, base, diff }) => ({
    kind: 'opened',
    action: `opened this pull request: ${branch(head)} into ${branch(base)}, ${stat(diff)}`,
  }),
  PullRequestHeadMoved: ({ from, to, diff }, page) => ({
    kind: 'code',
    action: `moved the head from ${commit(page, from)} to ${commit(page, to)}: now ${stat(diff)}`,
  }),
  MergeabilityChecked({ mergeable, head, conflicts, conflictCount }, page) {
    if (mergeable) return { kind: 'check', action: `found that ${commit(page, head)} can be merged` }
    const files = list(
      conflicts.map((file) => html`<code><bdi>${file}</bdi></code>`),
      conflictCount,
    )
    return { kind: 'failed', action: `found conflicts of ${commit(page, head)}${files && ` in ${files}`}` }
  },
  MergeBaseMoved: ({ from, to, diff }, page) => ({
    kind: 'check',
    action: `found the merge base moved from ${commit(page, from)} to ${commit(page, to)}: now ${stat(diff)}`,
  }),
  TargetBranchChanged: ({ from, base, diff }) => ({
    kind: 'field',
    action: `changed the target branch from ${branch(from)} to ${branch(base)}: now ${stat(diff)}`,
  }),
  PullRequestBranchRenamed: ({ side, from, to }) => ({
    kind: 'field',
    action: `renamed the ${side} branch from ${branch({ branch: from })} to ${branch({ branch: to })}`,
  }),
  MaintainerEditChanged: ({ allowed }) => ({
    kind: 'field',
    action: `${allowed ? 'allowed' : 'no longer allows'} edits by maintainers`,
  }),
  MergeStarted: ({ head, baseBranch, style }, page) => ({
    kind: 'merge',
    action: `began to merge ${commit(page, head)} into ${branch({ branch: baseBranch })} as ${STYLES[style]}`,
  }),
  MergeFailed: ({ reason }) => ({ kind: 'failed', action: 'could not complete the merge', text: reason }),
  PullRequestMerged: ({ style, commit: to }, page) => ({
    kind: 'merged',
    action: `merged this pull request as ${STYLES[style]}: ${commit(page, to)}`,
  }),
  HeadBranchDeleted: (data) => ({ kind: 'field', action: `deleted the branch ${branch(data.branch)}` }),
  HeadBranchKept: (data) => ({
    kind: 'field',
    action: `kept the branch ${branch(data.branch)}`,
    text: data.reason,
  }),
  MergeScheduled: (schedule, page) => ({ kind: 'merge', action: scheduledMerge(schedule, page) }),
  MergeScheduleCanceled: () => ({ kind: 'field', action: 'canceled the scheduled merge' }),
  ScheduledMergeRefused: ({ head, reason, errors, errorCount = errors.length }, page) => ({
    kind: 'failed',
    action: `gave up the scheduled merge of ${commit(page, head)}`,
    text: [
      reason,
      ...errors,
      ...(errorCount > errors.length ? [`and ${errorCount - errors.length} more`] : []),
    ].join('\n'),
  }),
  TitleChanged: ({ oldTitle, title }) => ({
    kind: 'field',
    action: `changed the title from ${named(oldTitle)} to ${named(title)}`,
  }),
  BodyChanged: ({ body }) =>
    body === ''
      ? { kind: 'field', action: 'removed the description' }
      : { kind: 'field', action: 'changed the description', text: body },
  StatusChanged({ closed, branchGone }) {
    if (!closed) return { kind: 'opened', action: 'reopened this pull request' }
    const reason = branchGone === undefined ? '' : `: its ${branchGone} branch was deleted`
    return { kind: 'closed', action: `closed this pull request${reason}` }
  },
  LabelsChanged({ added, removed }) {
    const parts = [
      ...(added.length > 0 ? [`added ${labels(added)}`] : []),
      ...(removed.length > 0 ? [`removed ${labels(removed)}`] : []),
    ]
    return { kind: 'field', action: parts.join(' and ') || 'set the labels' }
  },
  MilestoneChanged({ from, to }) {
    if (to === null) return { kind: 'field', action: `removed the milestone ${named(from?.title ?? '')}` }
    if (from === null) return { kind: 'field', action: `set the milestone ${named(to.title)}` }
    return { kind: 'field', action: `moved it from milestone ${named(from.title)} to ${named(to.title)}` }
  },
  AssigneesChanged({ added, removed }, page) {
    const parts = [
      ...(added.length > 0 ? [`assigned ${people(page, added)}`] : []),
      ...(removed.length > 0 ? [`unassigned ${people(page, removed)}`] : []),
    ]
    return { kind: 'field', action: parts.join(' and ') || 'set the assignees' }
  },
  DeadlineChanged({ from, to }) {
    if (to === null) return { kind: 'field', action: 'removed the deadline' }
    return {
      kind: 'field',
      action: `${from === null ? 'set' : 'moved'} the deadline to ${html`<b>${day(to)}</b>`}`,
    }
  },
  IssueRefChanged: ({ from, to }) => ({
    kind: 'field',
    action: to === '' ? `removed the reference to ${named(from)}` : `set the reference to ${named(to)}`,
  }),
  DependencyAdded: (data) => ({
    kind: 'field',
    action: `made it depend on ${dependencyName(data, data.dependency)}`,
  }),
  DependencyRemoved: (data) => ({
    kind: 'field',
    action: `made it no longer depend on ${dependencyName(data, data.dependency)}`,
  }),
  TextsErased: ({ commentId }) => ({
    kind: 'field',
    action: commentId === null ? 'erased all texts' : 'erased the texts of a comment',
  }),
  IssueFileAdded: ({ attachment }) => ({
    kind: 'talk',
    action: `attached the file ${named(attachment.name)} to the description`,
  }),
  IssueFileRenamed: ({ name }) => ({ kind: 'talk', action: `renamed an attached file to ${named(name)}` }),
  IssueFileDeleted: () => ({ kind: 'talk', action: 'deleted an attached file' }),
  DiscussionLocked: ({ reason }) => ({
    kind: 'field',
    action: `locked the conversation${reason === '' ? '' : `: ${named(reason)}`}`,
  }),
  DiscussionUnlocked: () => ({ kind: 'field', action: 'unlocked the conversation' }),
  ErasureFinished: ({ texts, files }) => ({
    kind: 'check',
    action: `destroyed the keys of ${counted(texts, 'text')}${files === 0 ? '' : ` and removed ${counted(files, 'file')}`}`,
  }),
  ReviewDrafted: () => ({ kind: 'talk', action: 'began or changed a review' }),
  ReviewCommentDrafted: () => ({ kind: 'talk', action: 'added a comment to a review that is not submitted' }),
  ReviewDraftDiscarded: () => ({ kind: 'talk', action: 'discarded a review that was not submitted' }),
  ReviewSubmitted: ({ verdict, commit: of, body, comments }, page) => ({
    kind: 'talk',
    action: `${VERDICTS[verdict]} ${commit(page, of)}${comments.length === 0 ? '' : ` with ${counted(comments.length, 'comment')} on lines`}`,
    text: body,
  }),
  ReviewCommentAdded: ({ path, side, line, body }) => ({
    kind: 'talk',
    action: `commented on ${lineName(line, side)}${html`<code><bdi>${path}</bdi></code>`}`,
    text: body,
  }),
  ReviewCommentResolved: ({ resolver }) => ({
    kind: 'field',
    action: `${resolver === null ? 'reopened' : 'resolved'} the conversation about a comment on a line`,
  }),
  ReviewDeleted: ({ reviewer }, page) => ({
    kind: 'talk',
    action: `deleted the review of ${person(page, reviewer.login)}`,
  }),
  ReviewDismissed: ({ reviewer, message }, page) => ({
    kind: 'field',
    action: `dismissed the review of ${person(page, reviewer.login)}`,
    text: message,
  }),
  ReviewUndismissed: ({ reviewer }, page) => ({
    kind: 'field',
    action: `took back the dismissal of the review of ${person(page, reviewer.login)}`,
  }),
  ReviewsOutdated({ head, stale, current, dismissed, official = [], unofficial = [] }, page) {
    const parts = [
      ...(stale.length > 0 ? [`found ${counted(stale.length, 'review')} of an earlier state`] : []),
      ...(dismissed.length > 0 ? [`dismissed ${counted(dismissed.length, 'approval')}`] : []),
      ...(current.length > 0
        ? [`found ${counted(current.length, 'review')} of the head ${commit(page, head)}`]
        : []),
      ...(official.length > 0 ? [`made ${counted(official.length, 'review')} official`] : []),
      ...(unofficial.length > 0 ? [`made ${counted(unofficial.length, 'review')} unofficial`] : []),
    ]
    return { kind: 'check', action: list(parts) || `looked through the reviews of ${commit(page, head)}` }
  },
  ReviewRequested: ({ reviewer }, page) => ({
    kind: 'field',
    action: `asked ${person(page, reviewer.login)} for a review`,
  }),
  ReviewRequestRemoved: ({ reviewer }, page) => ({
    kind: 'field',
    action: `no longer asks ${person(page, reviewer.login)} for a review`,
  }),
  TeamReviewRequested: ({ team }) => ({
    kind: 'field',
    action: `asked the team ${named(team.name)} for a review`,
  }),
  TeamReviewRequestRemoved: ({ team }) => ({
    kind: 'field',
    action: `no longer asks the team ${named(team.name)} for a review`,
  }),
  CommentAdded: ({ body }) => ({ kind: 'talk', action: 'commented', text: body }),
  CommentEdited: ({ body }) => ({ kind: 'talk', action: 'edited a comment', text: body }),
  CommentDeleted: () => ({ kind: 'talk', action: 'deleted a comment' }),
  AttachmentAdded: ({ attachment }) => ({
    kind: 'talk',
    action: `attached the file ${named(attachment.name)}`,
  }),
  AttachmentRenamed: ({ name }) => ({ kind: 'talk', action: `renamed an attached file to ${named(name)}` }),
  AttachmentDeleted: () => ({ kind: 'talk', action: 'deleted an attached file' }),
  UsersMentioned: ({ users }, page) => ({ kind: 'talk', action: `mentioned ${people(page, users)}` }),
  ReactionAdded: ({ reaction, commentId }) => ({
    kind: 'talk',
    action: `reacted with ${named(reaction)} to ${reactedTo(commentId)}`,
  }),
  ReactionRemoved: ({ user, reaction, commentId }, page) => ({
    kind: 'talk',
    action: `took back the reaction ${named(reaction)} of ${person(page, user.login)} to ${reactedTo(commentId)}`,
  }),
}

/** Whether the timeline has a sentence for an event of this type. */
export const isTimelineEvent = handledBy(SENTENCES)

/** Describes an event. */
export function describeEvent<T extends keyof TimelineData>(
  event: { type: T; data: TimelineData[T] },
  page: PageLinks,
): EventDescription {
  const { type }: { type: T } = event
  return SENTENCES[type](event.data, page)
}
