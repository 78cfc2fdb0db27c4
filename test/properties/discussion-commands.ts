/**
 * Random commands to issues and pull requests. The look-ups of a route before its decision (a milestone, open
 * dependencies) are simulated in the world.
 */
import fc from 'fast-check'
import * as comment from '../../src/commands/comments/comment.decider.ts'
import type { Decision } from '../../src/commands/execution/decider.ts'
import { decideDeleteIssue } from '../../src/commands/issues/deletion.decider.ts'
import {
  decideAddDependency,
  decideEditDiscussion,
  decideRemoveDependency,
  decideStatus,
} from '../../src/commands/issues/discussion.decider.ts'
import {
  addErasable,
  decideErase,
  emptyErasable,
} from '../../src/commands/issues/erasures/erasure.decider.ts'
import {
  decideAddIssueFile,
  decideDeleteIssueFile,
  decideRenameIssueFile,
} from '../../src/commands/issues/issue-files.decider.ts'
import { decideLock, decideUnlock } from '../../src/commands/issues/lock.decider.ts'
import * as pull from '../../src/commands/pull-requests/pull-request.decider.ts'
import type { DiscussionEvent } from '../../src/events/catalog/issues.ts'
import type { MilestoneRef } from '../../src/events/catalog/milestones.ts'
import type { AccountRef, IssueRef } from '../../src/events/catalog/parts.ts'
import { textsIn } from '../../src/events/sealing/sealed-texts.ts'
import { discussionStream } from '../../src/events/streams.ts'
import { type Discussion, sameIssue } from '../../src/projections/models/issues/discussion.ts'
import {
  account,
  by,
  command,
  DIFF,
  deadline,
  gone,
  INDEXES,
  labelId,
  milestoneId,
  nextId,
  oneOf,
  partial,
  record,
  SHAS,
  text,
} from './values.ts'
import { isPull, type World } from './world.ts'

const ref = record({ repoId: oneOf([1, 1, 2]), index: oneOf(INDEXES) })
const title = oneOf(['fix', 'fix it', 'feature', 'WIP: fix'])
const fields = {
  title,
  body: text,
  labels: fc.array(
    labelId.map((id) => ({ id, name: `label${id}` })),
    { maxLength: 3 },
  ),
  assignees: fc.array(account, { maxLength: 3 }),
  deadline,
  milestone: fc.option(milestoneId),
}

/** An issue or pull request, if it exists. */
export const discussionOf = (world: World, of: IssueRef): Discussion | undefined => {
  const state = isPull(of) ? world.pulls.now(of) : world.issues.now(of)
  return state.status === 'none' ? undefined : state
}

function changeDiscussion(
  world: World,
  of: IssueRef,
  who: AccountRef,
  decide: (state: Discussion) => Decision<DiscussionEvent>,
): void {
  if (!isPull(of)) {
    world.issues.change(of, who, (state) => (state.status === 'none' ? gone : decide(state)))
  } else world.pulls.change(of, who, (state) => (state.status === 'none' ? gone : decide(state)))
}

/** The milestone, if the repository has it, like a route's look-up. */
function milestoneIn(world: World, ofRepo: number, id: number | null): MilestoneRef | null {
  const state = id === null ? undefined : world.milestones.now(id)
  if (state?.status !== 'active' || state.milestone.repoId !== ofRepo) return null
  return { id: state.milestone.id, title: state.milestone.title }
}

export const openDependencies = (world: World, { dependencies }: Discussion) =>
  dependencies.filter((dependency) => discussionOf(world, dependency)?.closed === false)

/** Whether an issue depends on another one, directly or through others. */
const dependsOn = (world: World, from: IssueRef, to: IssueRef): boolean =>
  (discussionOf(world, from)?.dependencies ?? []).some(
    (next) => sameIssue(next, to) || dependsOn(world, next, to),
  )

/** A comment of an issue and two of a pull request. */
export const commentRefs = [
  { repoId: 1, index: 1, commentId: 101 },
  { repoId: 1, index: 2, commentId: 102 },
  { repoId: 1, index: 2, commentId: 103 },
]
const commentRef = oneOf(commentRefs)

export const open = (world: World, of: IssueRef, who: AccountRef, given: Opening) => {
  const { repoId, index } = of
  if (world.repositories.now(repoId).status !== 'active') return
  const milestone = milestoneIn(world, repoId, given.milestone)
  const unique = <T extends { id: number }>(all: readonly T[]) => [
    ...new Map(all.map((one) => [one.id, one])).values(),
  ]
  const opened = {
    ...given,
    ...of,
    id: repoId * 10 + index,
    poster: who,
    milestone,
    labels: unique(given.labels),
    assignees: unique(given.assignees),
  }
  if (!isPull(of)) {
    const isNew = !world.log.some(
      ({ type, data }) => type === 'IssueOpened' && 'index' in data && sameIssue(data, of),
    )
    world.issues.change(of, who, (state) =>
      state.status === 'none' && isNew ? [{ type: 'IssueOpened', data: opened }] : gone,
    )
    return
  }
  const base = { repoId, branch: 'main', sha: SHAS[0] ?? '' }
  const head = { repoId: 2, branch: `topic${index}`, sha: SHAS[1] ?? '' }
  const facts = { head, base, mergeBase: base.sha, diff: DIFF, mergeable: true }
  world.pulls.change(of, who, (state) => pull.decideOpen(state, { ...opened, ...facts }))
}
const opening = record(fields)
export type Opening = typeof opening extends fc.Arbitrary<infer T> ? T : never

/** Erasable texts: the log of this world has no sealed texts, so its texts count as sealed. */
function erasable(world: World, of: IssueRef) {
  const facts = emptyErasable()
  const stream = discussionStream({ ...of, isPull: isPull(of) })
  for (const event of world.log) {
    if (event.stream !== stream) continue
    const rest = textsIn(event)?.rest
    const sealed = { key: `${event.position}`, text: '' }
    addErasable(facts, rest === undefined ? event : { ...event, data: { ...rest, sealed } })
  }
  return facts
}

function erase(world: World, of: IssueRef, who: AccountRef, commentId: number | null): void {
  const at = '2026-01-01T00:00:00.000Z'
  const decision = decideErase(erasable(world, of), commentId, { by: who, at })
  changeDiscussion(world, of, who, () => decision)
  for (const ref of commentRefs) {
    if (ref.repoId === of.repoId && ref.index === of.index) world.comments.follow(ref)
  }
  const { pending } = erasable(world, of)
  const upTo = pending.at(-1)?.revision
  if (upTo === undefined) return
  changeDiscussion(world, of, who, ({ repoId, index }) => [
    { type: 'ErasureFinished', data: { repoId, index, upTo, texts: pending.length, files: 0 } },
  ])
}

export const discussionCommands = [
  command(
    'delete',
    record({ ref, by, really: oneOf([true, false, false]) }),
    (world, { ref, by, really }) => {
      if (isPull(ref) || !really) return
      world.wholeIssues.follow(ref)
      world.wholeIssues.change(ref, by, decideDeleteIssue)
      world.issues.follow(ref)
      const own = commentRefs.filter((comment) => sameIssue(comment, ref))
      for (const comment of own) world.comments.follow(comment)
      for (const text of [{ ...ref, commentId: null }, ...own]) world.reactions.follow(text)
    },
  ),
  command('erase', record({ ref, by, comment: fc.option(commentRef) }), (world, { ref, by, comment }) =>
    erase(world, comment ?? ref, by, comment?.commentId ?? null),
  ),
  command('open', record({ ref, by, given: opening }), (world, { ref, by, given }) =>
    open(world, ref, by, given),
  ),
  command(
    'edit',
    record({ ref, by, given: partial({ ...fields, ref: oneOf(['', 'main', 'v1']) }) }),
    (world, { ref, by, given: { milestone, ...others } }) =>
      changeDiscussion(world, ref, by, (state) => {
        if (milestone === undefined) return decideEditDiscussion(state, others)
        return decideEditDiscussion(state, {
          ...others,
          milestone: milestoneIn(world, ref.repoId, milestone),
        })
      }),
  ),
  command('close or reopen', record({ ref, by, closed: fc.boolean() }), (world, { ref, by, closed }) => {
    const discussion = discussionOf(world, ref)
    if (discussion === undefined) return
    const change = {
      closed,
      commentId: nextId(world),
      openDependencies: openDependencies(world, discussion),
    }
    if (isPull(ref)) world.pulls.change(ref, by, (state) => pull.decidePullStatus(state, change, by))
    else
      world.issues.change(ref, by, (state) => (state.status === 'none' ? gone : decideStatus(state, change)))
  }),
  command('depend', record({ ref, by, on: ref, adds: fc.boolean() }), (world, { ref, by, on, adds }) => {
    if (discussionOf(world, on) === undefined) return
    const circle = dependsOn(world, on, ref)
    const [first = on] = discussionOf(world, ref)?.dependencies ?? []
    changeDiscussion(world, ref, by, (state) =>
      adds ? decideAddDependency(state, on, circle) : decideRemoveDependency(state, first),
    )
  }),
  command('comment', record({ of: commentRef, by, body: text }), (world, { of, by, body }) => {
    if (discussionOf(world, of) === undefined) return
    const isNew = !world.log.some(({ data }) => 'commentId' in data && data.commentId === of.commentId)
    world.comments.change(of, by, (state) => {
      if (state.status === 'there') return comment.decideEditComment(state, body)
      return isNew ? [{ type: 'CommentAdded', data: { ...of, author: by, body } }] : gone
    })
  }),
  command('lock', record({ ref, by, locks: fc.boolean() }), (world, { ref, by, locks }) =>
    changeDiscussion(world, ref, by, (state) => (locks ? decideLock(state, 'Spam') : decideUnlock(state))),
  ),
  command(
    'file',
    record({
      ref,
      by,
      name: oneOf(['', 'a.txt', 'b.txt']),
      what: oneOf(['add', 'add', 'rename', 'rename', 'delete']),
    }),
    (world, { ref, by, name, what }) => {
      const id = discussionOf(world, ref)?.assets?.[0]?.id ?? 0
      changeDiscussion(world, ref, by, (state) => {
        if (what === 'rename') return decideRenameIssueFile(state, id, name)
        if (what === 'delete') return decideDeleteIssueFile(state, id)
        const file = { id: nextId(world), uuid: `uuid-${nextId(world)}`, name, size: 1, uploader: by }
        return decideAddIssueFile(state, { ...file, createdAt: '2026-01-01T00:00:00.000Z' })
      })
    },
  ),
  command('delete comment', record({ of: commentRef, by }), (world, { of, by }) =>
    world.comments.change(of, by, comment.decideDeleteComment),
  ),
  command(
    'attachment',
    record({
      of: commentRef,
      by,
      place: oneOf([0, 0, 1]),
      name: oneOf(['', 'a.txt', 'b.txt']),
      what: oneOf(['add', 'add', 'rename', 'rename', 'rename', 'delete']),
    }),
    (world, { of, by, place, name, what }) => {
      const before = world.comments.now(of)
      const attachmentId = (before.status === 'there' && before.attachments[place]?.id) || 0
      world.comments.change(of, by, (state) => {
        if (what === 'rename') return comment.decideRenameAttachment(state, attachmentId, name)
        if (what === 'delete') return comment.decideDeleteAttachment(state, attachmentId)
        const file = { id: nextId(world), uuid: `uuid-${nextId(world)}`, name, size: 1, uploader: by }
        return comment.decideAddAttachment(state, file)
      })
    },
  ),
]
