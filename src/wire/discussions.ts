/** Issues on the wire, and what pull requests there have in common with them. */

import { type Static, Type } from 'typebox'
import type { AccountDocument } from '../projections/accounts.ts'
import type { Discussion } from '../projections/discussion.ts'
import type { IssueDocument } from '../projections/issues.ts'
import type { LabelDocument } from '../projections/labels.ts'
import type { MilestoneDocument } from '../projections/milestones.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import type { View } from '../projections/view.ts'
import { type Access, accessTo } from '../rights/access.ts'
import type { AnswerServices } from '../services.ts'
import { LabelWire } from './labels.ts'
import { MilestoneWire } from './milestones.ts'
import { Nullable } from './nullable.ts'
import type { RepositoryWire } from './repositories.ts'
import { UserWire } from './users.ts'

/** What `Issue` and `PullRequest` share. */
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

const DiscussionWire = Type.Object(DISCUSSION_WIRE)

type Named<D extends object> = Pick<View<D>, 'getMany'>

/** Where what documents name by id is found: as it is now, or as it was (`replay/named-documents.ts`). */
export interface NamedDocuments {
  repositories: Named<RepositoryDocument>
  accounts: Named<AccountDocument>
  labels: Named<LabelDocument>
  milestones: Named<MilestoneDocument>
  /** Rights are those of now, whatever moment the document is of. */
  access(repository: RepositoryDocument, requester: AccountDocument | null): Access
}

export function namedNow({ views }: Pick<AnswerServices, 'views'>): NamedDocuments {
  const { repositories, accounts, labels, milestones } = views
  return { repositories, accounts, labels, milestones, access: accessTo }
}

/** What documents name by id, in wire form, and where they are. */
export interface DiscussionSurroundings {
  repository: Static<typeof RepositoryWire>
  people: ReadonlyMap<number, Static<typeof UserWire>>
  labels: ReadonlyMap<number, Static<typeof LabelWire>>
  milestones: ReadonlyMap<number, Static<typeof MilestoneWire>>
  publicUrl: string
}

/** What both documents have of the fields that both wires have. */
type DiscussionDocument = Discussion &
  Pick<IssueDocument, 'state' | 'comments' | 'createdAt' | 'updatedAt' | 'closedAt'>

/** The fields that both wires have. Labels and milestones that were deleted since are left out. */
export function discussionWire(
  document: DiscussionDocument,
  { people, labels, milestones }: DiscussionSurroundings,
): Static<typeof DiscussionWire> {
  const poster = people.get(document.poster.id)
  if (poster === undefined) throw new Error(`issue ${document.repoId}.${document.index} has no poster`)
  const assignees = present(document.assignees.map(({ id }) => people.get(id)))
  return {
    id: document.id,
    number: document.index,
    user: poster,
    title: document.title,
    body: document.body,
    labels: present(document.labels.map(({ id }) => labels.get(id))),
    milestone: document.milestone === null ? null : (milestones.get(document.milestone.id) ?? null),
    assignee: assignees[0] ?? null,
    assignees: assignees.length === 0 ? null : assignees,
    state: document.state,
    is_locked: false,
    comments: document.comments,
    due_date: document.deadline,
    created_at: document.createdAt,
    updated_at: document.updatedAt,
    closed_at: document.closedAt,
    pin_order: 0,
  }
}

export function present<T>(values: readonly (T | undefined)[]): T[] {
  return values.filter((value) => value !== undefined)
}
