/** Decides changes that issues and pull requests have in common. Pure. */

import { refuse } from '../../errors/refusal.ts'
import type { DiscussionEvent, StatusCause } from '../../events/catalog/issues.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import { type Discussion, sameIssue } from '../../projections/models/issues/discussion.ts'
import type { Decision } from '../execution/decider.ts'

/** Maximum number of dependencies of an issue. */
const MAX_DEPENDENCIES = 100

/** An edit; absent fields do not change. */
export type DiscussionEdit = Partial<
  Pick<Discussion, 'title' | 'body' | 'labels' | 'milestone' | 'assignees' | 'deadline' | 'ref'>
>

/** Returns one event for each changed field. */
export function decideEditDiscussion(discussion: Discussion, edit: DiscussionEdit): DiscussionEvent[] {
  const { repoId, index, closed } = discussion
  const events: DiscussionEvent[] = []
  if (edit.title !== undefined && edit.title !== discussion.title) {
    const { title } = edit
    events.push({ type: 'TitleChanged', data: { repoId, index, oldTitle: discussion.title, title } })
  }
  if (edit.body !== undefined && edit.body !== discussion.body) {
    events.push({ type: 'BodyChanged', data: { repoId, index, body: edit.body } })
  }
  if (edit.labels !== undefined) {
    const { all: labels, added, removed } = replaced(discussion.labels, edit.labels)
    if (added.length + removed.length > 0) {
      events.push({ type: 'LabelsChanged', data: { repoId, index, labels, added, removed } })
    }
  }
  if (edit.milestone !== undefined && edit.milestone?.id !== discussion.milestone?.id) {
    const { milestone: from } = discussion
    events.push({ type: 'MilestoneChanged', data: { repoId, index, from, to: edit.milestone, closed } })
  }
  if (edit.assignees !== undefined) {
    const { all: assignees, added, removed } = replaced(discussion.assignees, edit.assignees)
    if (added.length + removed.length > 0) {
      events.push({ type: 'AssigneesChanged', data: { repoId, index, assignees, added, removed } })
    }
  }
  if (edit.deadline !== undefined && edit.deadline !== discussion.deadline) {
    events.push({
      type: 'DeadlineChanged',
      data: { repoId, index, from: discussion.deadline, to: edit.deadline },
    })
  }
  const { ref: from = '' } = discussion
  if (edit.ref !== undefined && edit.ref !== from) {
    events.push({ type: 'IssueRefChanged', data: { repoId, index, from, to: edit.ref } })
  }
  return events
}

/** Compares two sets: returns all members, each once, and those added and removed. */
function replaced<T extends { id: number }>(before: readonly T[], after: readonly T[]) {
  const old = new Map(before.map((member) => [member.id, member]))
  const next = new Map(after.map((member) => [member.id, member]))
  return {
    all: [...next.values()],
    added: [...next.values()].filter(({ id }) => !old.has(id)),
    removed: [...old.values()].filter(({ id }) => !next.has(id)),
  }
}

export interface StatusChange {
  closed: boolean
  /** Id of the comment that records the change. */
  commentId: number
  /** The dependencies that are open. */
  openDependencies: readonly IssueRef[]
  /** The text that closes or reopens the issue by a keyword; absent for a request. */
  cause?: StatusCause
}

/** Closes or reopens. Refuses to close with an open dependency. */
export function decideStatus(discussion: Discussion, change: StatusChange): Decision<DiscussionEvent> {
  const { repoId, index, milestone } = discussion
  const { closed, commentId, openDependencies, cause } = change
  if (discussion.closed === closed) return []
  if (closed && openDependencies.length > 0) {
    return refuse.preconditionFailed(
      'the issue depends on open issues',
      openDependencies.map((dependency) => `#${dependency.index}`),
    )
  }
  const comment = { id: commentId, kind: closed ? 'close' : 'reopen' } as const
  const data = { repoId, index, closed, comment, milestone, ...(cause && { cause }) }
  return [{ type: 'StatusChanged', data }]
}

/** Adds a dependency. `dependsOnThis`: whether the other issue depends on this one; then neither could be closed. */
export function decideAddDependency(
  discussion: Discussion,
  dependency: IssueRef,
  dependsOnThis: boolean,
): Decision<DiscussionEvent> {
  const { repoId, index, dependencies } = discussion
  if (sameIssue(discussion, dependency)) return refuse.unprocessable('an issue cannot depend on itself')
  if (dependencies.some((known) => sameIssue(known, dependency))) {
    return refuse.conflict('the issue depends on that issue already')
  }
  if (dependsOnThis) return refuse.unprocessable('the other issue depends on this one')
  if (dependencies.length >= MAX_DEPENDENCIES) {
    return refuse.unprocessable(`an issue can have at most ${MAX_DEPENDENCIES} dependencies`)
  }
  return [{ type: 'DependencyAdded', data: { repoId, index, dependency } }]
}

export function decideRemoveDependency(
  discussion: Discussion,
  dependency: IssueRef,
): Decision<DiscussionEvent> {
  const { repoId, index, dependencies } = discussion
  if (!dependencies.some((known) => sameIssue(known, dependency))) {
    return refuse.notFound('the issue does not depend on that issue')
  }
  return [{ type: 'DependencyRemoved', data: { repoId, index, dependency } }]
}
