/** What happened, in a sentence a person reads: one for each type of event in a pull request's stream. Pure. */
import { html } from 'ghtml'
import type {
  AccountRef,
  BranchPoint,
  CommentEvent,
  DiffStat,
  IssueRef,
  LabelRef,
  MergeStyle,
  PullRequestEvent,
} from '../events/domain-events.ts'
import { count, day, shortId } from './words.ts'

export type StoryEvent = PullRequestEvent | CommentEvent

/** What a sentence is about: how the timeline marks it. */
export type Kind = 'opened' | 'talk' | 'code' | 'field' | 'check' | 'merge' | 'merged' | 'closed' | 'failed'

export interface Telling {
  kind: Kind
  /** Markup that goes on after the name of who did it: `closed this pull request`. */
  what: string
  /** Plain text that belongs to it, as it was written. */
  text?: string
}

const TOLD = {
  PullRequestOpened: true,
  PullRequestHeadMoved: true,
  MergeabilityChecked: true,
  MergeBaseMoved: true,
  TargetBranchChanged: true,
  MaintainerEditChanged: true,
  MergeStarted: true,
  MergeFailed: true,
  PullRequestMerged: true,
  HeadBranchDeleted: true,
  MergeScheduled: true,
  MergeScheduleCanceled: true,
  ScheduledMergeRefused: true,
  TitleChanged: true,
  BodyChanged: true,
  StatusChanged: true,
  LabelsChanged: true,
  MilestoneChanged: true,
  AssigneesChanged: true,
  DeadlineChanged: true,
  DependencyAdded: true,
  DependencyRemoved: true,
  CommentAdded: true,
  CommentEdited: true,
  CommentDeleted: true,
  AttachmentAdded: true,
  AttachmentRenamed: true,
  AttachmentDeleted: true,
} as const satisfies Record<StoryEvent['type'], true>

export function isStoryEvent<E extends { type: string }>(event: E): event is E & StoryEvent {
  return Object.hasOwn(TOLD, event.type)
}

const STYLES = {
  merge: 'a merge commit',
  rebase: 'a rebase',
  'rebase-merge': 'a rebase and a merge commit',
  squash: 'one squashed commit',
  'fast-forward-only': 'a fast-forward',
  'manually-merged': 'a merge by hand',
} as const satisfies Record<MergeStyle, string>

const commit = (sha: string) => html`<code>${shortId(sha)}</code>`
const branch = ({ branch }: Pick<BranchPoint, 'branch'>) => html`<code><bdi>${branch}</bdi></code>`
const named = (name: string) => html`<b><bdi>${name}</bdi></b>`
const people = (accounts: readonly AccountRef[]) => list(accounts.map(({ login }) => named(login)))
const labels = (refs: readonly LabelRef[]) =>
  `${refs.length === 1 ? 'the label' : 'the labels'} ${list(refs.map(({ name }) => named(name)))}`
const stat = ({ additions, deletions, changedFiles }: DiffStat) =>
  `${count(changedFiles, 'file')}, +${additions} −${deletions}`

/** `a`, `a and b`, `a, b and c`; of many the first ones. */
function list(items: readonly string[]): string {
  const shown = items.length > 12 ? [...items.slice(0, 10), `${items.length - 10} more`] : items
  return shown.length < 2 ? (shown[0] ?? '') : `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`
}

const other = (own: IssueRef, { repoId, index }: IssueRef) =>
  repoId === own.repoId ? `#${index}` : `#${index} of another repository`

export function tell(event: StoryEvent): Telling {
  switch (event.type) {
    case 'PullRequestOpened': {
      const { head, base, diff } = event.data
      const what = `opened this pull request: ${branch(head)} into ${branch(base)}, ${stat(diff)}`
      return { kind: 'opened', what }
    }
    case 'PullRequestHeadMoved': {
      const { from, to, diff } = event.data
      return { kind: 'code', what: `moved the head from ${commit(from)} to ${commit(to)}: now ${stat(diff)}` }
    }
    case 'MergeabilityChecked': {
      const { mergeable, head, conflicts } = event.data
      if (mergeable) return { kind: 'check', what: `found that ${commit(head)} can be merged` }
      const files = list(conflicts.map((file) => html`<code><bdi>${file}</bdi></code>`))
      return { kind: 'failed', what: `found conflicts of ${commit(head)}${files && ` in ${files}`}` }
    }
    case 'MergeBaseMoved': {
      const { from, to, diff } = event.data
      const what = `found the merge base moved from ${commit(from)} to ${commit(to)}: now ${stat(diff)}`
      return { kind: 'check', what }
    }
    case 'TargetBranchChanged': {
      const { from, base, diff } = event.data
      const what = `changed the target branch from ${branch(from)} to ${branch(base)}: now ${stat(diff)}`
      return { kind: 'field', what }
    }
    case 'MaintainerEditChanged': {
      const what = `${event.data.allowed ? 'allowed' : 'no longer allows'} edits by maintainers`
      return { kind: 'field', what }
    }
    case 'MergeStarted': {
      const { head, baseBranch, style } = event.data
      const what = `began to merge ${commit(head)} into ${branch({ branch: baseBranch })} as ${STYLES[style]}`
      return { kind: 'merge', what }
    }
    case 'MergeFailed':
      return { kind: 'failed', what: 'could not complete the merge', text: event.data.reason }
    case 'PullRequestMerged': {
      const { style, commit: to } = event.data
      return { kind: 'merged', what: `merged this pull request as ${STYLES[style]}: ${commit(to)}` }
    }
    case 'HeadBranchDeleted':
      return { kind: 'field', what: `deleted the branch ${branch(event.data.branch)}` }
    case 'MergeScheduled': {
      const what = `scheduled the merge as ${STYLES[event.data.style]}, for when all checks have succeeded`
      return { kind: 'merge', what }
    }
    case 'MergeScheduleCanceled':
      return { kind: 'field', what: 'canceled the scheduled merge' }
    case 'ScheduledMergeRefused': {
      const { head, reason, errors } = event.data
      const what = `gave up the scheduled merge of ${commit(head)}`
      return { kind: 'failed', what, text: [reason, ...errors].join('\n') }
    }
    case 'TitleChanged': {
      const { oldTitle, title } = event.data
      return { kind: 'field', what: `changed the title from ${named(oldTitle)} to ${named(title)}` }
    }
    case 'BodyChanged': {
      const { body } = event.data
      return body === ''
        ? { kind: 'field', what: 'removed the description' }
        : { kind: 'field', what: 'changed the description', text: body }
    }
    case 'StatusChanged':
      return event.data.closed
        ? { kind: 'closed', what: 'closed this pull request' }
        : { kind: 'opened', what: 'reopened this pull request' }
    case 'LabelsChanged': {
      const { added, removed } = event.data
      const said = [
        ...(added.length > 0 ? [`added ${labels(added)}`] : []),
        ...(removed.length > 0 ? [`removed ${labels(removed)}`] : []),
      ]
      return { kind: 'field', what: said.join(' and ') || 'set the labels' }
    }
    case 'MilestoneChanged': {
      const { from, to } = event.data
      if (to === null) return { kind: 'field', what: `removed the milestone ${named(from?.title ?? '')}` }
      if (from === null) return { kind: 'field', what: `set the milestone ${named(to.title)}` }
      return { kind: 'field', what: `moved it from milestone ${named(from.title)} to ${named(to.title)}` }
    }
    case 'AssigneesChanged': {
      const { added, removed } = event.data
      const said = [
        ...(added.length > 0 ? [`assigned ${people(added)}`] : []),
        ...(removed.length > 0 ? [`unassigned ${people(removed)}`] : []),
      ]
      return { kind: 'field', what: said.join(' and ') || 'set the assignees' }
    }
    case 'DeadlineChanged': {
      const { from, to } = event.data
      if (to === null) return { kind: 'field', what: 'removed the deadline' }
      const what = `${from === null ? 'set' : 'moved'} the deadline to ${html`<b>${day(to)}</b>`}`
      return { kind: 'field', what }
    }
    case 'DependencyAdded':
      return { kind: 'field', what: `made it depend on ${other(event.data, event.data.dependency)}` }
    case 'DependencyRemoved':
      return {
        kind: 'field',
        what: `made it no longer depend on ${other(event.data, event.data.dependency)}`,
      }
    case 'CommentAdded':
      return { kind: 'talk', what: 'commented', text: event.data.body }
    case 'CommentEdited':
      return { kind: 'talk', what: 'edited a comment', text: event.data.body }
    case 'CommentDeleted':
      return { kind: 'talk', what: 'deleted a comment' }
    case 'AttachmentAdded':
      return { kind: 'talk', what: `attached the file ${named(event.data.attachment.name)}` }
    case 'AttachmentRenamed':
      return { kind: 'talk', what: `renamed an attached file to ${named(event.data.name)}` }
    case 'AttachmentDeleted':
      return { kind: 'talk', what: 'deleted an attached file' }
  }
}
