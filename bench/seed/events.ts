/** Fills a log with repositories, issues and pull requests, directly through the EventStore port. */
import { randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AccountKind } from '../../src/events/catalog/organizations.ts'
import type { AccountRef } from '../../src/events/catalog/parts.ts'
import { schemaOf } from '../../src/events/codec.ts'
import type { DomainEvent } from '../../src/events/domain-events.ts'
import type { EventStore, ExpectedRevision, NewEvent, Position } from '../../src/events/store/event-store.ts'
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
import { PROCESSES, processCheckpoint } from '../../src/processes/process-manager.ts'
import type { ReadStore } from '../../src/projections/store/read-store.ts'
import { issueFacts, LABELS, MILESTONES } from './issue.ts'
import { pullFacts } from './pull.ts'

/** Maximum number of pending appends. */
const MAX_PENDING = 2000
const FIRST_MOMENT = Date.parse('2020-01-01T00:00:00.000Z')

export interface SeededRepository {
  name: string
  private?: boolean
  pulls?: number
  issues?: number
  /** Number of its issues with the rare word in the title. */
  marked?: number
}

export interface SeedPlan {
  owner: AccountRef & { kind: AccountKind }
  /** The user who creates all resources, and the owner if the owner is a user. */
  author: AccountRef
  repositories: readonly SeededRepository[]
}

/**
 * Appends repositories with issues and pull requests to a log, without git data: requests that need git answer 404. No
 * other process may write to the log meanwhile. `onProgress` gets the number of durable repositories, issues and pull
 * requests. Resolves to the number of appended events.
 *
 * @throws WrongExpectedRevision when a name is taken, or another process takes numbers meanwhile
 */
export async function seedEvents(
  store: EventStore,
  { owner, author, repositories }: SeedPlan,
  onProgress: (done: number) => void = () => {},
): Promise<number> {
  let appended = 0
  let clock = FIRST_MOMENT
  let created = 0
  let pending: Promise<unknown>[] = []

  function append(stream: string, events: readonly DomainEvent[], expected: ExpectedRevision): void {
    const recorded = events.map(({ type, data }): NewEvent => {
      clock += 1000
      const id = randomUUID()
      const at = new Date(clock).toISOString()
      const metadata = { actor: author, at, correlationId: id, causationId: id, schema: schemaOf(type) }
      return { id, type, data, metadata }
    })
    appended += events.length
    pending.push(store.append(stream, recorded, expected))
  }

  async function awaitAppends(): Promise<void> {
    await Promise.all(pending)
    pending = []
    onProgress(created)
  }

  async function countOne(): Promise<void> {
    created += 1
    if (pending.length >= MAX_PENDING) await awaitAppends()
  }

  /** Takes numbers like `takeNumber`, without waiting for each append, because no other process takes numbers. */
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
    await countOne()

    const takeIndex = sequence(numbersStream(repoId), null)
    for (let i = 1; i <= pulls; i++) {
      const index = takeIndex()
      const { claim, isMerged, refs, discussion } = pullFacts(repoId, index, take.issue(), author)
      const holder = pullStream(repoId, index)
      const claims = isMerged ? [claimed(claim, holder), released(claim, holder)] : [claimed(claim, holder)]
      append(claimStream(claim), claims, 'no-stream')
      append(gitStream(repoId), refs, 'any')
      append(holder, discussion, 'no-stream')
      await countOne()
    }
    if (issues === 0) continue
    const shared = { poster: author, labels: makeLabels(repoId), milestones: makeMilestones(repoId) }
    for (let i = 1; i <= issues; i++) {
      const index = takeIndex()
      const issue = { repoId, index, id: take.issue(), marked: isMarked(i, issues, marked), ...shared }
      append(issueStream(repoId, index), issueFacts(issue, take.comment), 'no-stream')
      await countOne()
    }
  }
  await awaitAppends()
  return appended
}

/**
 * Sets the checkpoints of the server's processes to the end of a log whose repositories all come from `seedEvents`.
 * Otherwise some processes would use git, which seeded repositories lack, and all would read the log during
 * measurements.
 */
export async function skipProcesses(readStore: ReadStore, position: Position): Promise<void> {
  await readStore.apply([], new Map(PROCESSES.map((name) => processCheckpoint(name, position))))
}

/** Seeded repositories have no git data. Without a file there, a start would report a missing git disk. */
export async function noteMissingGit(dataDir: string): Promise<void> {
  const git = join(dataDir, 'git')
  await mkdir(git, { recursive: true })
  await writeFile(join(git, 'SEEDED'), '')
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

/** Whether the i-th (from 1) of `all` items is marked, when `wanted` marked items are spread evenly. */
const isMarked = (i: number, all: number, wanted: number) =>
  Math.floor((i * wanted) / all) > Math.floor(((i - 1) * wanted) / all)
