/** Rows of a timeline on the wire. */
import { html } from 'ghtml'
import { type Static, Type } from 'typebox'
import { CommentWire, commentWires, discussionUrls } from '../../api/comments/comments.ts'
import { IssueWire, issueWires } from '../../api/issues/issues.ts'
import { LabelWire, labelsByIds, labelWire } from '../../api/labels/labels.ts'
import { MilestoneWire, milestoneWire } from '../../api/milestones/milestones.ts'
import { Nullable } from '../../api/nullable.ts'
import { PlainTeamWire, teamsById } from '../../api/organizations/teams.ts'
import { UserWire, usersById } from '../../api/users/users.ts'
import { wholeSeconds, ZERO_TIME } from '../../domain/times.ts'
import type { LabelRef } from '../../events/catalog/labels.ts'
import type { MilestoneRef } from '../../events/catalog/milestones.ts'
import type { CommentDocument } from '../../projections/models/comments/comments.fold.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import type { IssueDocument } from '../../projections/models/issues/issues.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import type { TimelineRow } from './timeline-rows.ts'

export const TimelineWire = Type.Object({
  id: Type.Integer(),
  type: Type.String(),
  html_url: Type.String(),
  pull_request_url: Type.String(),
  issue_url: Type.String(),
  /** Null for the server. */
  user: Nullable(UserWire),
  body: Type.String(),
  created_at: Type.String(),
  updated_at: Type.String(),
  old_project_id: Type.Integer(),
  project_id: Type.Integer(),
  old_milestone: Nullable(MilestoneWire),
  milestone: Nullable(MilestoneWire),
  tracked_time: Type.Null(),
  old_title: Type.String(),
  new_title: Type.String(),
  old_ref: Type.String(),
  new_ref: Type.String(),
  ref_issue: Nullable(IssueWire),
  ref_comment: Nullable(CommentWire),
  ref_action: Type.String(),
  ref_commit_sha: Type.String(),
  review_id: Type.Integer(),
  label: Nullable(LabelWire),
  assignee: Nullable(UserWire),
  assignee_team: Nullable(PlainTeamWire),
  removed_assignee: Type.Boolean(),
  resolve_doer: Type.Null(),
  dependent_issue: Nullable(IssueWire),
})

/** The documents that the rows of a page name, in wire form. */
type RelatedToRows = Awaited<ReturnType<typeof relatedToRows>>

/** Returns the fields that depend on the type of the row, as in Gitea. */
function fieldsOf(row: TimelineRow, related: RelatedToRows): Partial<Static<typeof TimelineWire>> {
  switch (row.type) {
    case 'comment':
      return { body: related.texts.get(row.id) ?? '' }
    case 'close':
    case 'reopen':
    case 'pull_scheduled_merge':
    case 'unlock':
      return {}
    case 'lock':
      return { body: row.reason }
    case 'label':
      return { body: row.added ? '1' : '', label: related.label(row.label) }
    case 'milestone':
      return { old_milestone: related.milestone(row.from), milestone: related.milestone(row.to) }
    case 'assignees':
      return { assignee: related.people.get(row.assignee.id) ?? null, removed_assignee: row.removed }
    case 'change_title':
      return { old_title: row.from, new_title: row.to }
    case 'added_deadline':
    case 'modified_deadline':
    case 'removed_deadline':
      return { body: row.dates }
    case 'add_dependency':
    case 'remove_dependency': {
      const { repoId, index } = row.dependency
      return { dependent_issue: related.issues.get(issueId(repoId, index)) ?? null }
    }
    case 'change_target_branch':
    case 'change_issue_ref':
      return { old_ref: row.from, new_ref: row.to }
    case 'delete_branch':
      return { old_ref: row.branch }
    case 'pull_push':
      return {
        body: JSON.stringify(
          row.forcedFrom === undefined
            ? { is_force_push: false, commit_ids: [row.commit] }
            : { is_force_push: true, commit_ids: [row.forcedFrom, row.commit] },
        ),
        ref_commit_sha: row.commit,
      }
    case 'merge_pull':
      return { ref_commit_sha: row.commit }
    case 'pull_cancel_scheduled_merge':
      return { body: row.reason }
    case 'review':
      return { body: related.reviews.get(row.review) ?? '', review_id: row.review }
    case 'review_request':
      return 'team' in row
        ? { assignee_team: related.teams.get(row.team.id) ?? null, removed_assignee: row.removed }
        : { assignee: related.people.get(row.reviewer.id) ?? null, removed_assignee: row.removed }
    case 'dismiss_review':
      return { body: row.message, review_id: row.review }
    case 'issue_ref':
    case 'pull_ref':
    case 'comment_ref':
      return {
        ref_action: row.action,
        ref_issue: related.issues.get(issueId(row.namedIn.repoId, row.namedIn.index)) ?? null,
        ref_comment: row.comment === null ? null : (related.comments.get(row.comment) ?? null),
      }
    case 'commit_ref':
      return { ref_commit_sha: row.commit, body: related.commitLink(row) }
  }
}

/** Reads all documents that the rows name, with one look-up for each kind. */
async function relatedToRows(
  services: Services,
  repository: RepositoryDocument,
  rows: readonly TimelineRow[],
  requester: AccountDocument | null,
) {
  const { views } = services
  const publicUrl = services.publicUrl()
  const idsOf = (idsOfRow: (row: TimelineRow) => readonly (string | number | undefined)[]) => [
    ...new Set(rows.flatMap((row) => idsOfRow(row).flatMap((id) => (id === undefined ? [] : [`${id}`])))),
  ]
  const people = rows.flatMap((row) => [
    row.by?.id,
    row.type === 'assignees' ? row.assignee.id : undefined,
    'reviewer' in row ? row.reviewer.id : undefined,
  ])
  const [peopleById, teams, labels, milestones, comments, reviews, issues, referencing, places] =
    await Promise.all([
      usersById(services, people),
      teamsById(
        views.teams,
        rows.flatMap((row) => ('team' in row ? [row.team.id] : [])),
        [repository],
      ),
      // Present readers must not see changes that a former owner makes to its labels.
      labelsByIds(
        services,
        repository,
        rows.flatMap((row) => (row.type === 'label' ? [row.label.id] : [])),
      ),
      views.milestones.getMany(idsOf((row) => (row.type === 'milestone' ? [row.from?.id, row.to?.id] : []))),
      views.comments.getMany(idsOf((row) => (row.type === 'comment' ? [row.id] : []))),
      views.reviews.getMany(idsOf((row) => (row.type === 'review' ? [row.review] : []))),
      views.issues.getMany(
        idsOf((row) => [
          'dependency' in row ? issueId(row.dependency.repoId, row.dependency.index) : undefined,
          'namedIn' in row ? issueId(row.namedIn.repoId, row.namedIn.index) : undefined,
        ]),
      ),
      referencingComments(services, rows),
      views.repositories.getMany(idsOf((row) => ('commitIn' in row ? [row.commitIn] : []))),
    ])
  const keys = new Map(issues.map(({ id, repoId, index }) => [id, issueId(repoId, index)]))
  const shown = await issueWires(services, issues, requester)
  const labelsById = new Map(labels.map((label) => [label.id, labelWire(label, repository, publicUrl)]))
  const milestonesById = new Map(milestones.map((milestone) => [milestone.id, milestoneWire(milestone)]))
  return {
    people: peopleById,
    teams,
    label: (label: LabelRef) => labelsById.get(label.id) ?? deletedLabel(label, repository, publicUrl),
    milestone: (milestone: MilestoneRef | null) =>
      milestone === null ? null : (milestonesById.get(milestone.id) ?? deletedMilestone(milestone)),
    /** By `issueId`, without issues that the requester may not read. */
    issues: new Map(shown.map((issue) => [keys.get(issue.id) ?? '', issue])),
    /** Comments that name the issue, by their ids. */
    comments: referencing,
    /** As in Gitea. */
    commitLink({ commitIn, commit, subject }: { commitIn: number; commit: string; subject: string }) {
      const place = places.find(({ id }) => id === commitIn)
      if (place === undefined) return ''
      return html`<a href="${publicUrl}/${place.ownerLogin}/${place.name}/commit/${commit}">${subject}</a>`
    },
    /** Texts of comments by their ids. */
    texts: new Map(comments.map(({ id, body }) => [id, body])),
    reviews: new Map(reviews.map(({ id, body }) => [id, body])),
  }
}

/** Returns the comments, reviews and line comments that name the issue, as comments. */
async function referencingComments(services: Services, rows: readonly TimelineRow[]) {
  const { comments, reviews, reviewComments, repositories } = services.views
  const named = rows.flatMap((row) => ('namedIn' in row && row.comment !== null ? [row] : []))
  const ids = named.map(({ comment }) => `${comment}`)
  const [plain, ofReviews, onLines, places] = await Promise.all([
    comments.getMany(ids),
    reviews.getMany(ids),
    reviewComments.getMany(ids),
    repositories.getMany([...new Set(named.map(({ namedIn }) => `${namedIn.repoId}`))]),
  ])
  const ofPull = { isPull: true, attachments: [], attachmentUuids: [] }
  const all: CommentDocument[] = [
    ...plain,
    ...ofReviews.map(({ reviewer, ...review }) => ({ ...review, author: reviewer, ...ofPull })),
    ...onLines.map((comment) => ({ ...comment, ...ofPull })),
  ]
  const wires = await Promise.all(
    places.map((place) =>
      commentWires(
        services,
        place,
        all.filter(({ repoId }) => repoId === place.id),
      ),
    ),
  )
  return new Map(wires.flat().map((wire) => [wire.id, wire]))
}

/** A deleted label, or one of a former owner: the event still has its name. */
function deletedLabel(label: LabelRef, repository: RepositoryDocument, publicUrl: string) {
  const scope = { kind: 'repository', repoId: repository.id } as const
  const rest = { scope, exclusive: false, archived: false, color: '', description: '' }
  return labelWire({ ...label, ...rest }, repository, publicUrl)
}

function deletedMilestone({ id, title }: MilestoneRef): Static<typeof MilestoneWire> {
  const none = { description: '', open_issues: 0, closed_issues: 0, closed_at: null, due_on: null }
  return { id, title, state: 'open', created_at: ZERO_TIME, updated_at: ZERO_TIME, ...none }
}

/**
 * Rows of one timeline as Gitea's `TimelineComment`, in the given order. Hides dependencies that the requester may not
 * read.
 */
export async function timelineWires(
  services: Services,
  repository: RepositoryDocument,
  issue: IssueDocument,
  rows: readonly TimelineRow[],
  requester: AccountDocument | null,
): Promise<Static<typeof TimelineWire>[]> {
  const related = await relatedToRows(services, repository, rows, requester)
  const publicUrl = services.publicUrl()
  return rows.map((row) => ({
    id: row.id,
    type: row.type,
    ...discussionUrls(repository, { ...issue, id: row.id }, publicUrl),
    user: row.by === null ? null : (related.people.get(row.by.id) ?? null),
    created_at: wholeSeconds(row.at),
    updated_at: wholeSeconds(row.updatedAt),
    body: '',
    old_project_id: 0,
    project_id: 0,
    old_milestone: null,
    milestone: null,
    tracked_time: null,
    old_title: '',
    new_title: '',
    old_ref: '',
    new_ref: '',
    ref_issue: null,
    ref_comment: null,
    ref_action: 'none',
    ref_commit_sha: '',
    review_id: 0,
    label: null,
    assignee: null,
    assignee_team: null,
    removed_assignee: false,
    resolve_doer: null,
    dependent_issue: null,
    ...fieldsOf(row, related),
  }))
}
