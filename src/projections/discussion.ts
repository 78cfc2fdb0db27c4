/**
 * What an issue and a pull request have in common, as the fold of the events that both have. Deciders and
 * read models share it, so that what is decided and what is shown can't drift apart.
 */
import type {
  AccountRef,
  DiscussionEvent,
  IssueRef,
  LabelRef,
  MilestoneRef,
} from '../events/domain-events.ts'
import { type Handlers, handle } from '../events/handlers.ts'

export interface Discussion extends IssueRef {
  /** Server-wide. */
  id: number
  poster: AccountRef
  title: string
  body: string
  closed: boolean
  labels: readonly LabelRef[]
  milestone: MilestoneRef | null
  assignees: readonly AccountRef[]
  /** ISO 8601 in the zone in which it was given, at 23:59:59. */
  deadline: string | null
  /** What must be closed before this can be. */
  dependencies: readonly IssueRef[]
}

export const sameIssue = (a: IssueRef, b: IssueRef) => a.repoId === b.repoId && a.index === b.index

/** In one word, as lists are asked for it. */
export const stateOf = (closed: boolean): 'open' | 'closed' => (closed ? 'closed' : 'open')

/** The fields that each event changes. */
export const discussionChanges: Handlers<DiscussionEvent['type'], Discussion, Partial<Discussion>> = {
  TitleChanged: (_, { data }) => ({ title: data.title }),
  BodyChanged: (_, { data }) => ({ body: data.body }),
  StatusChanged: (_, { data }) => ({ closed: data.closed }),
  LabelsChanged: (_, { data }) => ({ labels: data.labels }),
  MilestoneChanged: (_, { data }) => ({ milestone: data.to }),
  AssigneesChanged: (_, { data }) => ({ assignees: data.assignees }),
  DeadlineChanged: (_, { data }) => ({ deadline: data.to }),
  DependencyAdded: ({ dependencies }, { data }) => ({ dependencies: [...dependencies, data.dependency] }),
  DependencyRemoved: ({ dependencies }, { data }) => ({
    dependencies: dependencies.filter((other) => !sameIssue(other, data.dependency)),
  }),
}

/** The discussion after the event; whatever else it is made of stays. */
export function evolveDiscussion<D extends Discussion>(discussion: D, event: DiscussionEvent): D {
  return { ...discussion, ...handle(discussionChanges, discussion, event) }
}
