/** The log of a server that was busy for years, written directly through the EventStore port. */
import { randomUUID } from 'node:crypto'
import {
  type AccountKind,
  type AccountRef,
  type DomainEvent,
  schemaOf,
} from '../../src/events/domain-events.ts'
import type { EventStore, ExpectedRevision, NewEvent, Position } from '../../src/events/event-store.ts'
import {
  claimKeys,
  claimStream,
  gitStream,
  idsStream,
  issueStream,
  labelStream,
  milestoneStream,
  numbersStream,
  pullStream,
  repositoryStream,
} from '../../src/events/streams.ts'
import { processCheckpoint } from '../../src/processes/process-manager.ts'
import type { ReadStore } from '../../src/projections/read-store.ts'
import { issueFacts, LABELS, MILESTONES } from './issue.ts'
import { pullFacts } from './pull.ts'

/** Appends that are under way at once. */
const AT_ONCE = 2000
const FIRST_MOMENT = Date.parse('2020-01-01T00:00:00.000Z')

export interface SeededRepository {
  name: string
  private?: boolean
  pulls?: number
  issues?: number
  /** How many of its issues have the rare word in their titles. */
  marked?: number
}

export interface SeedPlan {
  owner: AccountRef & { kind: AccountKind }
  /** Who writes: the owner, when that is a user. */
  author: AccountRef
  repositories: readonly SeededRepository[]
}

/**
 * Appends repositories full of issues and pull requests to a log that nobody else writes to. They have no git
 * repository: reads do not need one, and what needs one answers 404. `onProgress` gets the number of
 * repositories, issues and pull requests that are durable. Resolves to the number of events appended.
 *
 * @throws WrongExpectedRevision when a name is taken, or somebody else takes numbers meanwhile
 */
export async function seedEvents(
  store: EventStore,
  { owner, author, repositories }: SeedPlan,
  onProgress: (done: number) => void = () => {},
): Promise<number> {
  let appended = 0
  let clock = FIRST_MOMENT
  let made = 0
  let underWay: Promise<unknown>[] = []

  function append(stream: string, events: readonly DomainEvent[], expected: ExpectedRevision): void {
    const recorded = events.map(({ type, data }): NewEvent => {
      clock += 1000
      const id = randomUUID()
      const at = new Date(clock).toISOString()
      const metadata = { actor: author, at, correlationId: id, causationId: id, schema: schemaOf[type] }
      return { id, type, data, metadata }
    })
    appended += events.length
    underWay.push(store.append(stream, recorded, expected))
  }

  async function written(): Promise<void> {
    await Promise.all(underWay)
    underWay = []
    onProgress(made)
  }

  async function oneMore(): Promise<void> {
    made += 1
    if (underWay.length >= AT_ONCE) await written()
  }

  /** Takes numbers as `takeNumber` does, but without a round trip each: a number follows from the one before. */
  function sequence(stream: string, last: number | null): () => number {
    let revision = last
    return () => {
      append(stream, [taken(stream)], revision ?? 'no-stream')
      revision = (revision ?? -1) + 1
      return revision + 1
    }
  }

  async function ids(kind: Parameters<typeof idsStream>[0]): Promise<() => number> {
    const stream = idsStream(kind)
    return sequence(stream, await lastRevision(store, stream))
  }

  const take = {
    repository: await ids('repository'),
    issue: await ids('issue'),
    comment: await ids('comment'),
    label: await ids('label'),
    milestone: await ids('milestone'),
  }

  function makeLabels(repoId: number) {
    return LABELS.map(({ name, color }) => {
      const id = take.label()
      const settings = { name, color, description: '', exclusive: false, archived: false }
      const scope = { kind: 'repository', repoId } as const
      append(labelStream(id), [{ type: 'LabelCreated', data: { id, scope, ...settings } }], 'no-stream')
      return { id, name }
    })
  }

  function makeMilestones(repoId: number) {
    return MILESTONES.map((title) => {
      const id = take.milestone()
      const settings = { title, description: '', state: 'open', dueOn: null } as const
      append(
        milestoneStream(id),
        [{ type: 'MilestoneCreated', data: { id, repoId, ...settings } }],
        'no-stream',
      )
      return { id, title }
    })
  }

  for (const { name, private: isPrivate = false, pulls = 0, issues = 0, marked = 0 } of repositories) {
    const repoId = take.repository()
    const key = claimKeys.repository(owner.id, name)
    append(claimStream(key), [claimed(key, repositoryStream(repoId))], 'no-stream')
    const settings = { name, description: '', website: '', private: isPrivate, defaultBranch: 'main' }
    append(
      repositoryStream(repoId),
      [{ type: 'RepositoryCreated', data: { repoId, owner, ...settings } }],
      'no-stream',
    )
    await oneMore()

    const takeIndex = sequence(numbersStream(repoId), null)
    for (let i = 1; i <= pulls; i++) {
      const index = takeIndex()
      const { claim, isMerged, refs, discussion } = pullFacts(repoId, index, take.issue(), author)
      const holder = pullStream(repoId, index)
      const claims = isMerged ? [claimed(claim, holder), released(claim, holder)] : [claimed(claim, holder)]
      append(claimStream(claim), claims, 'no-stream')
      append(gitStream(repoId), refs, 'any')
      append(holder, discussion, 'no-stream')
      await oneMore()
    }
    if (issues === 0) continue
    const surroundings = { poster: author, labels: makeLabels(repoId), milestones: makeMilestones(repoId) }
    for (let i = 1; i <= issues; i++) {
      const index = takeIndex()
      const issue = { repoId, index, id: take.issue(), marked: isMarked(i, issues, marked), ...surroundings }
      append(issueStream(repoId, index), issueFacts(issue, take.comment), 'no-stream')
      await oneMore()
    }
  }
  await written()
  return appended
}

/**
 * Marks all of a log as handled by the server's processes: they would work with git, and seeded repositories
 * have no git. Only for a log in which all repositories come from `seedEvents`.
 */
export async function passOver(readStore: ReadStore, position: Position): Promise<void> {
  const names = ['pull_heads', 'scheduled_merges', 'head_branches']
  await readStore.apply([], new Map(names.map((name) => processCheckpoint(name, position))))
}

/** The last revision of a stream; null when it does not exist. */
export async function lastRevision(store: EventStore, stream: string): Promise<number | null> {
  for await (const { revision } of store.readStream(stream, { direction: 'backwards', maxCount: 1 })) {
    return revision
  }
  return null
}

const taken = (sequence: string): DomainEvent => ({ type: 'NumberTaken', data: { sequence } })
const claimed = (key: string, holder: string): DomainEvent => ({ type: 'ClaimTaken', data: { key, holder } })
const released = (key: string, holder: string): DomainEvent => ({
  type: 'ClaimReleased',
  data: { key, holder },
})

/** Of `all` in a row, whether the i-th (from 1) is among `wanted` that are spread evenly. */
const isMarked = (i: number, all: number, wanted: number) =>
  Math.floor((i * wanted) / all) > Math.floor(((i - 1) * wanted) / all)
