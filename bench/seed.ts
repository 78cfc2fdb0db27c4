/** The log of a server that has been busy for years, written straight through the EventStore port. */
import { createHash, randomUUID } from 'node:crypto'
import { type AccountRef, type BranchPoint, type DomainEvent, schemaOf } from '../src/events/domain-events.ts'
import type { EventStore, ExpectedRevision, NewEvent } from '../src/events/event-store.ts'
import {
  claimKeys,
  claimStream,
  gitStream,
  idsStream,
  numbersStream,
  pullStream,
  repositoryStream,
} from '../src/events/streams.ts'

/** Appends that are under way at once. */
const AT_ONCE = 2000
const FIRST_MOMENT = Date.parse('2020-01-01T00:00:00.000Z')
/** Of four pull requests, so many are merged; the rest is open. */
const MERGED_OF_FOUR = 3
const AUTHOR = { name: 'A Developer', email: 'developer@example.org', date: '2020-01-01T00:00:00+00:00' }
const BODY =
  'What it does, and why.\n\n- It reads the list from one index.\n- No git process is started.\n\n'.repeat(4)

/** Events that one pull request leaves in the log, on average. */
export const EVENTS_PER_PULL = 10

export interface SeedOptions {
  owner: AccountRef
  /** Pull requests by name of their repository. */
  repositories: ReadonlyMap<string, number>
}

/**
 * Appends repositories full of pull requests to a log in which only accounts have been made. There are no
 * git repositories behind them: reads need none. Resolves to the number of events appended.
 */
export async function seed(store: EventStore, { owner, repositories }: SeedOptions): Promise<number> {
  let appended = 0
  let clock = FIRST_MOMENT
  let issueId = 0
  let repoId = 0
  let underWay: Promise<unknown>[] = []

  async function append(stream: string, events: readonly DomainEvent[], expected: ExpectedRevision) {
    const recorded = events.map(({ type, data }): NewEvent => {
      clock += 1000
      const id = randomUUID()
      const at = new Date(clock).toISOString()
      const metadata = { actor: owner, at, correlationId: id, causationId: id, schema: schemaOf[type] }
      return { id, type, data, metadata }
    })
    appended += events.length
    underWay.push(store.append(stream, recorded, expected))
    if (underWay.length < AT_ONCE) return
    await Promise.all(underWay)
    underWay = []
  }

  for (const [name, pulls] of repositories) {
    repoId += 1
    const key = claimKeys.repository(owner.id, name)
    await append(idsStream('repository'), [taken(idsStream('repository'))], 'any')
    await append(claimStream(key), [claimed(key, repositoryStream(repoId))], 'no-stream')
    const settings = { name, description: '', website: '', private: false, defaultBranch: 'main' }
    const data = { repoId, owner: { ...owner, kind: 'user' as const }, ...settings }
    await append(repositoryStream(repoId), [{ type: 'RepositoryCreated', data }], 'no-stream')
    for (let index = 1; index <= pulls; index++) {
      issueId += 1
      const facts = pullFacts(repoId, index, issueId, owner)
      const isMerged = index % 4 < MERGED_OF_FOUR
      const holder = pullStream(repoId, index)
      await append(numbersStream(repoId), [taken(numbersStream(repoId))], 'any')
      await append(idsStream('issue'), [taken(idsStream('issue'))], 'any')
      await append(
        claimStream(facts.claim),
        isMerged
          ? [claimed(facts.claim, holder), released(facts.claim, holder)]
          : [claimed(facts.claim, holder)],
        'no-stream',
      )
      await append(gitStream(repoId), isMerged ? [...facts.pushes, facts.mergePush] : facts.pushes, 'any')
      await append(holder, isMerged ? [...facts.discussion, ...facts.merge] : facts.discussion, 'no-stream')
    }
  }
  await Promise.all(underWay)
  return appended
}

const taken = (sequence: string): DomainEvent => ({ type: 'NumberTaken', data: { sequence } })
const claimed = (key: string, holder: string): DomainEvent => ({ type: 'ClaimTaken', data: { key, holder } })
const released = (key: string, holder: string): DomainEvent => ({
  type: 'ClaimReleased',
  data: { key, holder },
})

function pullFacts(repoId: number, index: number, id: number, poster: AccountRef) {
  const sha = (what: string) => createHash('sha1').update(`${repoId}.${index} ${what}`).digest('hex')
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
      refs: [
        {
          ref: `refs/heads/${branch}`,
          from,
          to,
          commit: { sha: to, message: `Change ${index}\n`, author: AUTHOR, committer: AUTHOR },
        },
      ],
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
  return {
    claim: claimKeys.pull(head, base),
    pushes: [pushed(head.branch, null, first, 'push'), pushed(head.branch, first, tip, 'push')],
    discussion,
    merge,
    mergePush: pushed('main', from, commit, 'merge'),
  }
}
