/** The fields that issues and pull requests share on the wire. */
import { type Static, Type } from 'typebox'
import { wholeSeconds } from '../../domain/times.ts'
import { NO_PINS, pinOrder } from '../../events/pins.ts'
import type { Discussion } from '../../projections/models/issues/discussion.ts'
import type { IssueDocument } from '../../projections/models/issues/issues.fold.ts'
import { LabelWire } from '../labels/labels.ts'
import { MilestoneWire } from '../milestones/milestones.ts'
import { Nullable } from '../nullable.ts'
import type { RelatedDocuments } from '../related-documents.ts'
import { UserWire } from '../users/users.ts'

/** The fields that Gitea's `Issue` and `PullRequest` share. */
export const DISCUSSION_WIRE = {
  id: Type.Integer(),
  number: Type.Integer(),
  user: UserWire,
  title: Type.String(),
  body: Type.String(),
  labels: Type.Array(LabelWire),
  milestone: Nullable(MilestoneWire),
  assignee: Nullable(UserWire),
  assignees: Nullable(Type.Array(UserWire)),
  state: Type.String(),
  is_locked: Type.Boolean(),
  comments: Type.Integer(),
  due_date: Nullable(Type.String()),
  created_at: Type.String(),
  updated_at: Type.String(),
  closed_at: Nullable(Type.String()),
  pin_order: Type.Integer(),
}

const DiscussionWire = Type.Object(DISCUSSION_WIRE, { title: 'Discussion' })

/** The part of both documents that the shared fields come from. */
type DiscussionDocument = Discussion &
  Pick<IssueDocument, 'state' | 'comments' | 'createdAt' | 'updatedAt' | 'closedAt'>

/** Returns the shared fields of one document. Leaves out deleted labels and milestones. */
export function discussionWire(
  document: DiscussionDocument,
  { people, labels, milestones, pins }: RelatedDocuments,
): Static<typeof DiscussionWire> {
  const poster = people.get(document.poster.id)
  if (poster === undefined) throw new Error(`issue ${document.repoId}.${document.index} has no poster`)
  const assignees = document.assignees.flatMap(({ id }) => people.get(id) ?? [])
  return {
    id: document.id,
    number: document.index,
    user: poster,
    title: document.title,
    body: document.body,
    labels: document.labels.flatMap(({ id }) => labels.get(id) ?? []),
    milestone: document.milestone === null ? null : (milestones.get(document.milestone.id) ?? null),
    assignee: assignees[0] ?? null,
    assignees: assignees.length === 0 ? null : assignees,
    state: document.state,
    is_locked: document.locked ?? false,
    comments: document.comments,
    due_date: wholeSeconds(document.deadline),
    created_at: wholeSeconds(document.createdAt),
    updated_at: wholeSeconds(document.updatedAt),
    closed_at: wholeSeconds(document.closedAt),
    pin_order: pinOrder(pins.get(document.repoId) ?? NO_PINS, document.index),
  }
}
