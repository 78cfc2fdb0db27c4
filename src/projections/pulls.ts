/** Pull requests: every list and every detail is read from here; no git is asked. */
import type { AccountRef, BranchPoint, DiffStat } from '../events/domain-events.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface PullDocument {
  repoId: number
  index: number
  /** Server-wide. */
  id: number
  poster: AccountRef
  title: string
  body: string
  state: 'open' | 'closed'
  head: BranchPoint
  base: BranchPoint
  /** `repoId:branch` of head and base: what a moved branch is looked up by. */
  headKey: string
  baseKey: string
  mergeBase: string
  diff: DiffStat
  mergeable: boolean
  merged: { commit: string; at: string; by: AccountRef } | null
  /** A merge whose outcome is not recorded yet: what a start after a crash has to finish. */
  merging: boolean
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
      ['state', 1],
    ],
    [
      ['baseKey', 1],
      ['state', 1],
    ],
    [['merging', 1]],
  ],
  arrays: [],
}

export const pullId = (repoId: number, index: number) => `${repoId}.${index}`
export const branchKey = (repoId: number, branch: string) => `${repoId}:${branch}`

export const pullFold: Fold<PullDocument> = {
  collection: pulls,
  version: 1,
  touches(event) {
    switch (event.type) {
      case 'PullRequestOpened':
      case 'PullRequestHeadMoved':
      case 'MergeabilityChecked':
      case 'MergeStarted':
      case 'MergeFailed':
      case 'PullRequestMerged':
        return [pullId(event.data.repoId, event.data.index)]
      default:
        return []
    }
  },
  evolve(pull, event) {
    const { at } = event.metadata
    if (event.type === 'PullRequestOpened') {
      const { data } = event
      return {
        repoId: data.repoId,
        index: data.index,
        id: data.id,
        poster: data.poster,
        title: data.title,
        body: data.body,
        state: 'open',
        head: data.head,
        base: data.base,
        headKey: branchKey(data.head.repoId, data.head.branch),
        baseKey: branchKey(data.base.repoId, data.base.branch),
        mergeBase: data.mergeBase,
        diff: data.diff,
        mergeable: data.mergeable,
        merged: null,
        merging: false,
        comments: 0,
        createdAt: at,
        updatedAt: at,
        closedAt: null,
      }
    }
    if (pull === undefined) return undefined
    switch (event.type) {
      case 'PullRequestHeadMoved': {
        const { to, mergeBase, diff } = event.data
        return { ...pull, head: { ...pull.head, sha: to }, mergeBase, diff, updatedAt: at }
      }
      case 'MergeabilityChecked': {
        const { head, base, mergeable } = event.data
        return { ...pull, head: { ...pull.head, sha: head }, base: { ...pull.base, sha: base }, mergeable }
      }
      case 'MergeStarted':
        return { ...pull, merging: true }
      case 'MergeFailed':
        return { ...pull, merging: false }
      case 'PullRequestMerged': {
        const { commit, mergedBy } = event.data
        const merged = { commit, at, by: mergedBy }
        return {
          ...pull,
          state: 'closed',
          merged,
          merging: false,
          mergeable: false,
          updatedAt: at,
          closedAt: at,
        }
      }
      default:
        return pull
    }
  },
}

export const pullModel = readModel(pullFold)
