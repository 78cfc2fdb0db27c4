/**
 * Maps log events to webhook notices: the kind of the delivery and its payload. A new event type for clients gets a
 * line in `notices`.
 */

import type { LabelRef } from '../../events/catalog/labels.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import type { HookEvent } from '../../events/catalog/webhooks.ts'
import type { DomainEvent, Envelope, Recorded } from '../../events/domain-events.ts'
import { type EventType, type Handlers, handle, handledBy } from '../../events/handlers.ts'
import { isPullStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'
import {
  commentPayload,
  type DiscussionChange,
  discussionPayload,
  replyPayload,
} from './discussion-payloads.ts'
import {
  branchOf,
  createPayload,
  deletePayload,
  pushPayload,
  statusPayload,
  tagOf,
  testPayload,
} from './push-payloads.ts'
import { releasePayload } from './release-payloads.ts'
import { createdPayload, deletedPayload, forkPayload } from './repository-payloads.ts'

/** One delivery to each matching webhook. */
export interface Notice {
  event: HookEvent
  /** Repository whose webhooks, and those of whose owner, get it. */
  repoId: number
  /** Owner, when the repository is deleted. */
  ownerId?: number
  /** Sends it to this webhook only, whatever its subscribed events. */
  hookId?: number
  /** Branch for `branch_filter`; without one, every filter matches. */
  branch?: string
  /** Resolves to undefined when the subject is deleted. @throws errors of stores, git and look-ups */
  payload(services: Services): Promise<object | undefined>
}

/** Returns the kind for an issue or a pull request. */
const kindIn = ({ stream }: Envelope, suffix: '' | '_assign' | '_label' | '_milestone'): HookEvent => {
  if (isPullStream(stream)) return `pull_request${suffix}`
  return suffix === '' ? 'issues' : `issue${suffix}`
}

const ofDiscussion = (
  event: Envelope & { data: IssueRef },
  suffix: '' | '_assign' | '_label' | '_milestone',
  what: DiscussionChange,
): Notice => ({
  event: kindIn(event, suffix),
  repoId: event.data.repoId,
  payload: (services) => discussionPayload(services, event, event.data, what),
})

const ofLabels = (
  event: Envelope & { data: IssueRef },
  { labels, added, removed }: Record<'labels' | 'added' | 'removed', readonly LabelRef[]>,
): Notice =>
  ofDiscussion(event, '_label', {
    action: labels.length === 0 ? 'label_cleared' : 'label_updated',
    labels: { added, removed },
  })

/** As in Gitea, also sends a notice for the initial labels, the milestone and each assignee. */
const opened = (
  event: Envelope & {
    data: IssueRef & { labels: readonly LabelRef[]; milestone: object | null; assignees: readonly object[] }
  },
): Notice[] => {
  const { labels, milestone, assignees } = event.data
  return [
    ofDiscussion(event, '', { action: 'opened' }),
    ...(labels.length > 0 ? [ofLabels(event, { labels, added: labels, removed: [] })] : []),
    ...(milestone !== null ? [ofDiscussion(event, '_milestone', { action: 'milestoned' })] : []),
    ...assignees.map(() => ofDiscussion(event, '_assign', { action: 'assigned' })),
  ]
}

const ofRequest = (
  event: Envelope & { data: IssueRef & { reviewer?: { id: number } } },
  action: string,
): Notice => ({
  ...ofDiscussion(event, '', {
    action,
    ...(event.data.reviewer !== undefined && { reviewer: event.data.reviewer.id }),
  }),
  event: 'pull_request_review_request',
})

const ofComment = (
  event: Envelope & { data: IssueRef & { commentId: number } },
  action: Parameters<typeof commentPayload>[3],
): Notice => ({
  event: isPullStream(event.stream) ? 'pull_request_comment' : 'issue_comment',
  repoId: event.data.repoId,
  payload: (services) => commentPayload(services, event, event.data, action),
})

/** Notices of a published release: only writers may see drafts. */
const ofRelease = (
  event: Envelope & { data: { releaseId: number; repoId: number; draft: boolean } },
  action: Parameters<typeof releasePayload>[3],
): Notice[] => {
  const { repoId, draft } = event.data
  if (draft) return []
  return [
    { event: 'release', repoId, payload: (services) => releasePayload(services, event, event.data, action) },
  ]
}

/** The subject is unused: a handler needs the event only. */
type NoticeTable<T extends EventType> = Handlers<T, undefined, readonly Notice[], Envelope>

function noticeTable<T extends EventType>(table: NoticeTable<T>) {
  const handles = handledBy<T, Envelope>(table)
  return {
    /** Whether webhooks get events of this type. */
    handles,
    /** Returns the notices of an event in the order of sending. */
    of: (event: Recorded<DomainEvent> | { type: string }): readonly Notice[] =>
      handles(event) ? handle(table, undefined, event) : [],
  }
}

export const notices = noticeTable({
  RefsUpdated(_, event) {
    const { cause, repoId, refs } = event.data
    // Gitea sends notices of the fork and the new repository, but not of their first branches.
    if (cause === 'fork' || cause === 'auto-init') return []
    return refs.flatMap((update): Notice[] => {
      const branch = branchOf(update.ref)
      if (branch === undefined && tagOf(update.ref) === undefined) return []
      const common = { repoId, ...(branch !== undefined && { branch }) }
      const push: Notice = {
        event: 'push',
        ...common,
        payload: (services) => pushPayload(services, event, repoId, update),
      }
      const created: Notice = {
        event: 'create',
        ...common,
        payload: (services) => createPayload(services, event, repoId, update),
      }
      const deleted: Notice = {
        event: 'delete',
        ...common,
        payload: (services) => deletePayload(services, event, repoId, update),
      }
      if (update.to === null) return branch === undefined ? [push, deleted] : [deleted]
      if (update.from !== null) return [push]
      return branch === undefined ? [push, created] : [created, push]
    })
  },
  RepositoryCreated(_, event) {
    const { repoId, parent } = event.data
    const created: Notice = {
      event: 'repository',
      repoId,
      payload: (services) => createdPayload(services, event, repoId),
    }
    if (parent === undefined) return [created]
    const forked: Notice = {
      event: 'fork',
      repoId: parent.repoId,
      payload: (services) => forkPayload(services, event, parent.repoId, repoId),
    }
    return [forked, created]
  },
  RepositoryDeleted(_, event) {
    const { repoId, owner } = event.data
    const payload = (services: Services) => deletedPayload(services, event, repoId)
    return [{ event: 'repository', repoId, ownerId: owner.id, payload }]
  },
  CommitStatusPosted: (_, event) => [
    {
      event: 'status',
      repoId: event.data.repoId,
      payload: (services) => statusPayload(services, event, event.data),
    },
  ],
  IssueOpened: (_, event) => opened(event),
  PullRequestOpened: (_, event) => opened(event),
  TitleChanged: (_, event) => [
    ofDiscussion(event, '', { action: 'edited', changes: { title: { from: event.data.oldTitle } } }),
  ],
  BodyChanged: (_, event) => [ofDiscussion(event, '', { action: 'edited', changes: 'body' })],
  TargetBranchChanged: (_, event) => [
    ofDiscussion(event, '', { action: 'edited', changes: { ref: { from: event.data.from.branch } } }),
  ],
  StatusChanged(_, event) {
    const { repoId, closed, cause } = event.data
    // The receiver may not be allowed to see a commit of another repository.
    const commit = cause?.repoId === repoId ? { commit: cause.commit } : {}
    return [ofDiscussion(event, '', { action: closed ? 'closed' : 'reopened', ...commit })]
  },
  PullRequestMerged: (_, event) => [ofDiscussion(event, '', { action: 'closed' })],
  LabelsChanged: (_, event) => [ofLabels(event, event.data)],
  MilestoneChanged: (_, event) => [
    ofDiscussion(event, '_milestone', { action: event.data.to === null ? 'demilestoned' : 'milestoned' }),
  ],
  AssigneesChanged: (_, event) => [
    ...event.data.removed.map(() => ofDiscussion(event, '_assign', { action: 'unassigned' })),
    ...event.data.added.map(() => ofDiscussion(event, '_assign', { action: 'assigned' })),
  ],
  PullRequestHeadMoved(_, event) {
    const head = { before: event.data.from, after: event.data.to }
    return [{ ...ofDiscussion(event, '', { action: 'synchronized', head }), event: 'pull_request_sync' }]
  },
  CommentAdded: (_, event) => [ofComment(event, 'created')],
  CommentEdited: (_, event) => [ofComment(event, 'edited')],
  CommentDeleted: (_, event) => [ofComment(event, 'deleted')],
  ReviewSubmitted(_, event) {
    const { verdict, body } = event.data
    const kind: HookEvent = `pull_request_review_${verdict}`
    const review = { type: kind, content: body }
    return [{ ...ofDiscussion(event, '', { action: 'reviewed', review }), event: kind }]
  },
  // Comments of a submitted review are sent with it.
  ReviewCommentAdded(_, event) {
    const { repoId, replyTo } = event.data
    if (replyTo === undefined) return []
    return [{ event: 'pull_request_comment', repoId, payload: (services) => replyPayload(services, event) }]
  },
  ReviewRequested: (_, event) => [ofRequest(event, 'review_requested')],
  ReviewRequestRemoved: (_, event) => [ofRequest(event, 'review_request_removed')],
  // The pull request in the payload names the teams.
  TeamReviewRequested: (_, event) => [ofRequest(event, 'review_requested')],
  TeamReviewRequestRemoved: (_, event) => [ofRequest(event, 'review_request_removed')],
  ReleaseCreated: (_, event) => ofRelease(event, 'published'),
  ReleaseEdited: (_, event) => ofRelease(event, event.data.changes.draft === false ? 'published' : 'updated'),
  ReleaseDeleted: (_, event) => ofRelease(event, 'deleted'),
  WebhookTested(_, event) {
    const { id: hookId, repoId } = event.data
    const payload = (services: Services) => testPayload(services, event, event.data)
    return [{ event: 'push', repoId, hookId, payload }]
  },
})
