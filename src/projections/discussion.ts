/**
 * What an issue and a pull request have in common, as the fold of the events that both have. Deciders and
 * read models share it, so that what is decided and what is shown can't drift apart.
 */
import type {
  AccountRef,
  DiscussionEvent,
  DomainEvent,
  IssueRef,
  LabelRef,
  MilestoneRef,
} from '../events/domain-events.ts'

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

/** Their types, for deciders and folds that handle them. */
export const DISCUSSION_EVENTS: Readonly<Record<DiscussionEvent['type'], true>> = {
  TitleChanged: true,
  BodyChanged: true,
  StatusChanged: true,
  LabelsChanged: true,
  MilestoneChanged: true,
  AssigneesChanged: true,
  DeadlineChanged: true,
  DependencyAdded: true,
  DependencyRemoved: true,
}

export function isDiscussionEvent<E extends DomainEvent>(event: E): event is E & DiscussionEvent {
  return Object.hasOwn(DISCUSSION_EVENTS, event.type)
}

export const sameIssue = (a: IssueRef, b: IssueRef) => a.repoId === b.repoId && a.index === b.index

/** The discussion after the event; whatever else it is made of stays. */
export function evolveDiscussion<D extends Discussion>(discussion: D, event: DiscussionEvent): D {
  switch (event.type) {
    case 'TitleChanged':
      return { ...discussion, title: event.data.title }
    case 'BodyChanged':
      return { ...discussion, body: event.data.body }
    case 'StatusChanged':
      return { ...discussion, closed: event.data.closed }
    case 'LabelsChanged':
      return { ...discussion, labels: event.data.labels }
    case 'MilestoneChanged':
      return { ...discussion, milestone: event.data.to }
    case 'AssigneesChanged':
      return { ...discussion, assignees: event.data.assignees }
    case 'DeadlineChanged':
      return { ...discussion, deadline: event.data.to }
    case 'DependencyAdded':
      return { ...discussion, dependencies: [...discussion.dependencies, event.data.dependency] }
    case 'DependencyRemoved': {
      const { dependency } = event.data
      return {
        ...discussion,
        dependencies: discussion.dependencies.filter((other) => !sameIssue(other, dependency)),
      }
    }
  }
}
