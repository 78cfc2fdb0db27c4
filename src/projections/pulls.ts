/** Pull requests: every list and every detail is read from here; no git is asked. */
import type { AccountRef, BranchPoint, DiffStat, ScheduledMerge } from '../events/domain-events.ts'
import { isPullStream } from '../events/streams.ts'
import { type Discussion, evolveDiscussion, isDiscussionEvent } from './discussion.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface PullDocument extends Discussion {
  state: 'open' | 'closed'
  status: 'open' | 'closed' | 'merged'
  head: BranchPoint
  base: BranchPoint
  /** `repoId:branch` of head and base: what a moved branch is looked up by. */
  headKey: string
  baseKey: string
  /** What lists select by. */
  headSha: string
  labelIds: number[]
  milestoneId: number | null
  /** Of the issues that this one depends on. */
  dependencyKeys: string[]
  mergeBase: string
  diff: DiffStat
  mergeable: boolean
  /** Files in conflict, as the last check found them. */
  conflicts: string[]
  allowMaintainerEdit: boolean
  merged: { commit: string; at: string; by: AccountRef } | null
  /** A merge whose outcome is not recorded yet: what a start after a crash has to finish. */
  merging: boolean
  schedule: ScheduledMerge | null
  scheduled: boolean
  comments: number
  createdAt: string
  updatedAt: string
  closedAt: string | null
}

export const pulls: Collection<PullDocument> = {
  name: 'pulls',
  indexes: [
    [
      ['repoId', 1],
      ['state', 1],
      ['index', 1],
    ],
    [
      ['repoId', 1],
      ['state', 1],
      ['updatedAt', 1],
      ['index', 1],
    ],
    [
      ['repoId', 1],
      ['state', 1],
      ['comments', 1],
      ['index', 1],
    ],
    [
      ['repoId', 1],
      ['index', 1],
    ],
    [
      ['repoId', 1],
      ['updatedAt', 1],
      ['index', 1],
    ],
    [
      ['repoId', 1],
      ['comments', 1],
      ['index', 1],
    ],
    [
      ['headKey', 1],
      ['status', 1],
    ],
    [
      ['baseKey', 1],
      ['status', 1],
    ],
    [
      ['repoId', 1],
      ['milestoneId', 1],
      ['index', 1],
    ],
    [['merging', 1]],
    [
      ['scheduled', 1],
      ['repoId', 1],
    ],
  ],
  arrays: ['labelIds', 'dependencyKeys'],
}

export const pullId = (repoId: number, index: number) => `${repoId}.${index}`
export const branchKey = (repoId: number, branch: string) => `${repoId}:${branch}`

export const pullFold: Fold<PullDocument> = {
  collection: pulls,
  version: 3,
  touches(event) {
    if (isDiscussionEvent(event)) {
      return isPullStream(event.stream) ? [pullId(event.data.repoId, event.data.index)] : []
    }
    switch (event.type) {
      case 'PullRequestOpened':
      case 'PullRequestHeadMoved':
      case 'MergeabilityChecked':
      case 'MergeBaseMoved':
      case 'TargetBranchChanged':
      case 'MaintainerEditChanged':
      case 'MergeStarted':
      case 'MergeFailed':
      case 'PullRequestMerged':
      case 'HeadBranchDeleted':
      case 'MergeScheduled':
      case 'MergeScheduleCanceled':
      case 'ScheduledMergeRefused':
        return [pullId(event.data.repoId, event.data.index)]
      case 'CommentAdded':
      case 'CommentEdited':
      case 'CommentDeleted':
        return isPullStream(event.stream) ? [pullId(event.data.repoId, event.data.index)] : []
      default:
        return []
    }
  },
  evolve(pull, event) {
    const { at } = event.metadata
    if (event.type === 'PullRequestOpened') {
      const { repoId, index, id, poster, title, body, head, base, mergeBase, diff } = event.data
      const { mergeable, labels, milestone, assignees, deadline } = event.data
      const [dependencies, schedule] = [[], null]
      return {
        repoId,
        index,
        id,
        poster,
        title,
        body,
        head,
        base,
        mergeBase,
        diff,
        mergeable,
        labels,
        milestone,
        assignees,
        deadline,
        state: 'open',
        status: 'open',
        closed: false,
        dependencies,
        conflicts: [],
        allowMaintainerEdit: false,
        merged: null,
        merging: false,
        schedule,
        comments: 0,
        createdAt: at,
        updatedAt: at,
        closedAt: null,
        ...derived({ head, base, labels, milestone, dependencies, schedule }),
      }
    }
    if (pull === undefined) return undefined
    if (isDiscussionEvent(event)) {
      const next = evolveDiscussion({ ...pull, updatedAt: at }, event)
      if (event.type !== 'StatusChanged') return indexed(next)
      const status = event.data.closed ? 'closed' : 'open'
      return indexed({ ...next, state: status, status, closedAt: event.data.closed ? at : null })
    }
    switch (event.type) {
      case 'PullRequestHeadMoved': {
        const { to, mergeBase, diff } = event.data
        return indexed({ ...pull, head: { ...pull.head, sha: to }, mergeBase, diff, updatedAt: at })
      }
      case 'MergeabilityChecked': {
        const { base, mergeable, conflicts } = event.data
        return { ...pull, base: { ...pull.base, sha: base }, mergeable, conflicts }
      }
      case 'MergeBaseMoved':
        return { ...pull, mergeBase: event.data.to, diff: event.data.diff }
      case 'TargetBranchChanged': {
        const { base, mergeBase, diff } = event.data
        return indexed({ ...pull, base, mergeBase, diff, updatedAt: at })
      }
      case 'MaintainerEditChanged':
        return { ...pull, allowMaintainerEdit: event.data.allowed, updatedAt: at }
      case 'MergeStarted':
        return { ...pull, merging: true }
      case 'MergeFailed':
        return { ...pull, merging: false }
      case 'PullRequestMerged': {
        const { commit, head, mergeBase, mergedBy } = event.data
        return indexed({
          ...pull,
          state: 'closed',
          status: 'merged',
          closed: true,
          head: { ...pull.head, sha: head },
          mergeBase: mergeBase ?? pull.mergeBase,
          merged: { commit, at, by: mergedBy },
          merging: false,
          schedule: null,
          mergeable: false,
          updatedAt: at,
          closedAt: at,
        })
      }
      case 'HeadBranchDeleted':
        return { ...pull, updatedAt: at }
      case 'MergeScheduled': {
        const { repoId: _repoId, index: _index, ...schedule } = event.data
        return indexed({ ...pull, schedule, updatedAt: at })
      }
      case 'MergeScheduleCanceled':
      case 'ScheduledMergeRefused':
        return indexed({ ...pull, schedule: null, updatedAt: at })
      case 'CommentAdded':
        return { ...pull, comments: pull.comments + 1, updatedAt: at }
      case 'CommentEdited':
        return { ...pull, updatedAt: at }
      case 'CommentDeleted':
        return { ...pull, comments: pull.comments - 1, updatedAt: at }
      default:
        return pull
    }
  },
}

/** With the fields that follow from others as these are now. */
const indexed = (pull: PullDocument): PullDocument => ({ ...pull, ...derived(pull) })

type Found = Pick<PullDocument, 'head' | 'base' | 'labels' | 'milestone' | 'dependencies' | 'schedule'>

/** The fields that follow from others, and that only serve to find it. */
function derived({ head, base, labels, milestone, dependencies, schedule }: Found) {
  return {
    headKey: branchKey(head.repoId, head.branch),
    baseKey: branchKey(base.repoId, base.branch),
    headSha: head.sha,
    labelIds: labels.map(({ id }) => id),
    milestoneId: milestone?.id ?? null,
    dependencyKeys: dependencies.map(({ repoId, index }) => pullId(repoId, index)),
    scheduled: schedule !== null,
  }
}

export const pullModel = readModel(pullFold)
