/** The events of one pull request. It is opened, pushed to, checked, and in most cases merged. Pure. */
import { hash } from 'node:crypto'
import type { AccountRef } from '../../src/events/catalog/parts.ts'
import type { BranchPoint } from '../../src/events/catalog/pull-requests.ts'
import type { DomainEvent } from '../../src/events/domain-events.ts'
import { claimKeys } from '../../src/events/streams.ts'

/** Three of four pull requests are merged, one stays open. */
const MERGED_OF_FOUR = 3
const AUTHOR = { name: 'A Developer', email: 'developer@example.org', date: '2020-01-01T00:00:00+00:00' }
const BODY =
  'What it does, and why.\n\n- It reads the list from one index.\n- No git process is started.\n\n'.repeat(4)

/**
 * Returns the key of its claim, the events of the repository's refs and of its own stream. The commits are not in git.
 */
export function pullFacts(repoId: number, index: number, id: number, poster: AccountRef) {
  const sha = (what: string) => hash('sha1', `${repoId}.${index} ${what}`, 'hex')
  const [first, tip, from, commit] = [sha('first'), sha('tip'), sha('base'), sha('merge')]
  const head: BranchPoint = { repoId, branch: `change-${index}`, sha: first }
  const base: BranchPoint = { repoId, branch: 'main', sha: from }
  const diff = { additions: index % 100, deletions: index % 40, changedFiles: 1 + (index % 7) }
  const merging = {
    style: 'merge',
    head: tip,
    mergeBase: from,
    commit,
    deleteBranch: false,
  } as const
  const message = `Merge #${index}\n`
  const pushed = (branch: string, from: string | null, to: string, cause: 'push' | 'merge'): DomainEvent => ({
    type: 'RefsUpdated',
    data: {
      repoId,
      cause,
      refs: [{ ref: `refs/heads/${branch}`, from, to }],
      commits: [{ sha: to, message: `Change ${index}\n`, author: AUTHOR, committer: AUTHOR }],
    },
  })
  const title = `Change number ${index} of many`
  const discussion: DomainEvent[] = [
    {
      type: 'PullRequestOpened',
      data: {
        repoId,
        index,
        id,
        poster,
        title,
        body: BODY,
        head,
        base,
        mergeBase: from,
        diff,
        mergeable: true,
        labels: [],
        milestone: null,
        assignees: [],
        deadline: null,
      },
    },
    { type: 'PullRequestHeadMoved', data: { repoId, index, from: first, to: tip, mergeBase: from, diff } },
    {
      type: 'MergeabilityChecked',
      data: { repoId, index, head: tip, base: from, mergeable: true, conflicts: [] },
    },
  ]
  const merge: DomainEvent[] = [
    {
      type: 'MergeStarted',
      data: { repoId, index, baseBranch: 'main', from, message, by: poster, ...merging },
    },
    { type: 'PullRequestMerged', data: { repoId, index, mergedBy: poster, milestone: null, ...merging } },
  ]
  const pushes = [pushed(head.branch, null, first, 'push'), pushed(head.branch, first, tip, 'push')]
  const isMerged = index % 4 < MERGED_OF_FOUR
  return {
    claim: claimKeys.pull(head, base),
    isMerged,
    refs: isMerged ? [...pushes, pushed('main', from, commit, 'merge')] : pushes,
    discussion: isMerged ? [...discussion, ...merge] : discussion,
  }
}
