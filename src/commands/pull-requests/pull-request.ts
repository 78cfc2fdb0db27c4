/** The pull request aggregate. Pure: facts of git come in with the command. */
import type {
  AccountRef,
  BranchPoint,
  DiffStat,
  MergeStyle,
  PullRequestEvent,
} from '../../events/domain-events.ts'
import type { Decider, Decision } from '../execute.ts'
import { type Refusal, refuse } from '../refusal.ts'

/** A merge whose intent is recorded and whose outcome is not. */
export interface MergeUnderWay {
  style: MergeStyle
  baseBranch: string
  /** The base branch moves from here to `commit`. */
  from: string
  head: string
  commit: string
  by: AccountRef
}

export interface ActivePull {
  status: 'open' | 'merged'
  repoId: number
  index: number
  poster: AccountRef
  title: string
  head: BranchPoint
  base: BranchPoint
  mergeability: { head: string; base: string; mergeable: boolean }
  merging: MergeUnderWay | null
}

export type PullState = { status: 'none' } | ActivePull

export const pullDecider: Decider<PullState, PullRequestEvent> = {
  initialState: { status: 'none' },
  snapshots: new WeakMap(),
  handles: {
    PullRequestOpened: true,
    PullRequestHeadMoved: true,
    MergeabilityChecked: true,
    MergeStarted: true,
    MergeFailed: true,
    PullRequestMerged: true,
  },
  evolve(state, event) {
    if (event.type === 'PullRequestOpened') {
      const { repoId, index, poster, title, head, base, mergeable } = event.data
      const mergeability = { head: head.sha, base: base.sha, mergeable }
      return { status: 'open', repoId, index, poster, title, head, base, mergeability, merging: null }
    }
    if (state.status === 'none') return state
    switch (event.type) {
      case 'PullRequestHeadMoved':
        return { ...state, head: { ...state.head, sha: event.data.to } }
      case 'MergeabilityChecked': {
        const { head, base, mergeable } = event.data
        return { ...state, mergeability: { head, base, mergeable } }
      }
      case 'MergeStarted': {
        const { style, baseBranch, from, head, commit, by } = event.data
        return { ...state, merging: { style, baseBranch, from, head, commit, by } }
      }
      case 'MergeFailed':
        return { ...state, merging: null }
      case 'PullRequestMerged':
        return { ...state, status: 'merged', merging: null }
    }
  },
}

const gone = refuse.notFound('pull request not found')

export function decideOpen(
  state: PullState,
  opened: Extract<PullRequestEvent, { type: 'PullRequestOpened' }>['data'],
): Decision<PullRequestEvent> {
  if (state.status !== 'none') return refuse.conflict('the pull request exists already')
  return [{ type: 'PullRequestOpened', data: opened }]
}

/** The head branch came to another commit. A merged pull request keeps the head that was merged. */
export function decideHeadMoved(
  state: PullState,
  moved: { to: string; mergeBase: string; diff: DiffStat },
): Decision<PullRequestEvent> {
  if (state.status !== 'open' || state.head.sha === moved.to) return []
  const { repoId, index, head } = state
  return [{ type: 'PullRequestHeadMoved', data: { repoId, index, from: head.sha, ...moved } }]
}

/** Recorded for the pair of commits that was tried; the same answer for the same pair is no event. */
export function decideMergeability(
  state: PullState,
  checked: { head: string; base: string; mergeable: boolean; conflicts: string[] },
): Decision<PullRequestEvent> {
  if (state.status !== 'open') return []
  const { head, base, mergeable } = state.mergeability
  if (head === checked.head && base === checked.base && mergeable === checked.mergeable) return []
  return [{ type: 'MergeabilityChecked', data: { repoId: state.repoId, index: state.index, ...checked } }]
}

export interface MergeRequest {
  style: string
  mayMerge: boolean
  /** `head_commit_id`: the head that the requester has seen. */
  expectedHead?: string
}

/** Titles of work in progress: DESIGN section 8. */
export function isWorkInProgress(title: string): boolean {
  return /^(WIP:|\[WIP\])/i.test(title)
}

/** The name of the style, when it is one. */
export function isMergeStyle(style: string): style is MergeStyle {
  return style === 'merge'
}

/** Merge rules 2 and 7, as far as the pull request itself can tell: why it can't be merged, if so. */
export function mergeRefusal(state: PullState, request: MergeRequest): Refusal | undefined {
  if (state.status === 'none') return gone
  if (!request.mayMerge) return refuse.notAllowed('you are not allowed to merge this pull request')
  if (state.status === 'merged') return refuse.notAllowed('the pull request is merged already')
  if (isWorkInProgress(state.title)) return refuse.notAllowed('the pull request is a work in progress')
  if (!isMergeStyle(request.style)) return refuse.notAllowed(`Do: "${request.style}" is no merge style`)
  if (request.expectedHead !== undefined && request.expectedHead !== state.head.sha) {
    return refuse.conflict(`head_commit_id: the head is at ${state.head.sha}`)
  }
  return undefined
}

/** The intent, with the commit that was built: from here on the merge is finished or recorded as failed. */
export function decideStartMerge(
  state: PullState,
  merge: MergeUnderWay & { message: string },
): Decision<PullRequestEvent> {
  if (state.status !== 'open') return gone
  if (state.merging !== null) return refuse.conflict('another merge of this pull request is under way')
  return [{ type: 'MergeStarted', data: { repoId: state.repoId, index: state.index, ...merge } }]
}

/** The base branch has the commit: the merge under way is done. */
export function decideMerged(state: PullState, commit: string): Decision<PullRequestEvent> {
  if (state.status !== 'open' || state.merging?.commit !== commit) return []
  const { repoId, index, merging } = state
  return [
    { type: 'PullRequestMerged', data: { repoId, index, commit, head: merging.head, mergedBy: merging.by } },
  ]
}

/** The base branch went elsewhere: the merge under way did not happen. */
export function decideMergeFailed(
  state: PullState,
  commit: string,
  reason: string,
): Decision<PullRequestEvent> {
  if (state.status !== 'open' || state.merging?.commit !== commit) return []
  return [{ type: 'MergeFailed', data: { repoId: state.repoId, index: state.index, commit, reason } }]
}
