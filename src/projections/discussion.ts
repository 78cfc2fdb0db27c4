/**
 * The common part of issues and pull requests, folded from the events that both have. Deciders and read models share
 * it, so that they cannot disagree.
 */
import type { DiscussionEvent, IssueRef, Opened, ScheduledMerge } from '../events/domain-events.ts'
import { type Handlers, handle } from '../events/handlers.ts'
import { erasedText } from '../events/sealed-texts.ts'

export interface Discussion extends Opened {
  closed: boolean
  /** The issues and pull requests that must be closed before this one can be closed. */
  dependencies: readonly IssueRef[]
}

export const sameIssue = (a: IssueRef, b: IssueRef) => a.repoId === b.repoId && a.index === b.index

/** The state in one word, as filters of lists name it. */
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
  TextsErased: (_, { data }) =>
    data.commentId === null ? { title: erasedText(data), body: erasedText(data) } : {},
  ErasureFinished: () => ({}),
}

/** Applies the event to the common fields. Other fields stay the same. */
export function evolveDiscussion<D extends Discussion>(discussion: D, event: DiscussionEvent): D {
  return { ...discussion, ...handle(discussionChanges, discussion, event) }
}

/** The same for a pull request: a scheduled merge gets the default message, which has the title of then. */
export const erasedPullTexts: Handlers<
  'TextsErased',
  Discussion & { schedule: ScheduledMerge | null },
  Partial<Discussion> & { schedule?: ScheduledMerge | null }
> = {
  TextsErased({ schedule }, { data }) {
    if (data.commentId !== null) return {}
    const texts = { title: erasedText(data), body: erasedText(data) }
    return schedule === null ? texts : { ...texts, schedule: { ...schedule, title: '', message: '' } }
  },
}
