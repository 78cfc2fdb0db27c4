/** The events of which the documents of a moment are made, in small batches. */
import { nextSlice } from '../../../concurrency/event-loop.ts'
import type { AccountKind } from '../../../events/catalog/organizations.ts'
import { decode } from '../../../events/codec.ts'
import { LOG_START, type Position, type RecordedEvent } from '../../../events/store/event-store.ts'
import { organizationStream, userStream } from '../../../events/streams.ts'
import { accountFold } from '../../../projections/models/users/accounts.fold.ts'
import type { MomentPart } from '../../../projections/moments/builder.ts'
import { MOMENT_MODELS, type ModelGroup } from '../../../projections/moments/moment-models.ts'
import type { Views } from '../../../projections/views/views.ts'
import type { MomentClient, Subject } from '../../../services/moment.ts'
import type { HistoryServices } from '../../../services/services.ts'

type Source = HistoryServices & { views: Pick<Views, 'history' | 'linkedEvents'> }

interface Range {
  /** Exclusive. */
  after: Position
  /** Inclusive. */
  upTo: Position
}

/** Number of positions of the first read, which many repositories need not exceed, and of each later one. */
const FIRST_CHUNK = 100
const CHUNK = 1000
/** Number of events that are sent to the thread at one time. */
const BATCH = 500
/** Number of streams of accounts that are read at the same time. */
const CONCURRENT_READS = 8

/** Yields the events of a subject in a range. Those of accounts begin at the start of the log. */
export async function* momentParts(
  source: Source,
  { kind, id }: Subject,
  range: Range,
  client: MomentClient,
): AsyncGenerator<MomentPart> {
  if (kind === 'repository') yield* repositoryParts(source, 'repository', id, range, client)
  const accounts = kind === 'repository' ? await peopleOf(source, id, range.upTo) : [{ kind, id }]
  const events = await accountEvents(source, accounts, range.upTo, client)
  for (let i = 0; i < events.length; i += BATCH) {
    yield { models: 'accounts', events: events.slice(i, i + BATCH) }
  }
}

/** Yields the events of a repository that a group of read models handles. */
export async function* repositoryParts(
  { events, views }: Source,
  models: ModelGroup,
  repoId: number,
  range: Range,
  { client, gone }: MomentClient,
): AsyncGenerator<MomentPart> {
  let batch: RecordedEvent[] = []
  for await (const positions of merged(
    positionsOf(views.history, { repoId }, range),
    positionsOf(views.linkedEvents, { repoId }, range),
  )) {
    for await (const event of events.readPositions(positions)) {
      if (!MOMENT_MODELS[models].some((model) => model.handles(event))) continue
      batch.push(event)
      if (batch.length < BATCH) continue
      yield { models, events: batch }
      batch = []
    }
    await nextSlice(client)
    gone?.throwIfAborted()
  }
  if (batch.length > 0) yield { models, events: batch }
}

/** Yields the positions of a repository's events in a range. `view` has a document for each, with an index of these fields. */
async function* positionsOf<F extends object>(
  view: {
    find(
      filter: F & InRange,
      options: { sort: [['position', 1]]; limit: number },
    ): Promise<{ position: Position }[]>
  },
  filter: F,
  { after, upTo }: Range,
): AsyncGenerator<Position[]> {
  let last = after
  for (let limit = FIRST_CHUNK; ; limit = CHUNK) {
    const found = await view.find(
      { ...filter, position: { $gt: last, $lte: upTo } },
      { sort: [['position', 1]], limit },
    )
    if (found.length > 0) yield found.map(({ position }) => position)
    if (found.length < limit) return
    last = found.at(-1)?.position ?? last
  }
}

interface InRange {
  position: { $gt: Position; $lte: Position }
}

/** Yields two ascending lists as one. `second` is short: forks, and texts that name issues. */
async function* merged(
  first: AsyncGenerator<Position[]>,
  second: AsyncGenerator<Position[]>,
): AsyncGenerator<Position[]> {
  let others = (await Array.fromAsync(second)).flat()
  for await (const positions of first) {
    const last = positions.at(-1) ?? LOG_START
    const before = others.filter((position) => position <= last)
    if (before.length > 0) others = others.slice(before.length)
    // The creation of a fork of a fork is in both.
    yield before.length === 0 ? positions : [...new Set([...positions, ...before])].sort(ascending)
  }
  if (others.length > 0) yield others
}

const ascending = (a: number, b: number) => a - b

interface Account {
  kind: AccountKind
  id: number
}

/** The accounts that lists of a repository's people may show: its owners and collaborators up to then. */
async function peopleOf({ events, views }: Source, repoId: number, upTo: Position): Promise<Account[]> {
  const positions: Position[] = []
  for (const type of ['RepositoryCreated', 'RepositoryTransferred', 'CollaboratorSet']) {
    for await (const found of positionsOf(views.history, { repoId, type }, { after: LOG_START, upTo })) {
      positions.push(...found)
    }
  }
  const people = new Map<number, Account>()
  for await (const recorded of events.readPositions(positions.sort(ascending))) {
    const { type, data } = decode(recorded)
    if (type === 'CollaboratorSet') people.set(data.user.id, { kind: 'user', id: data.user.id })
    else if (type === 'RepositoryCreated' || type === 'RepositoryTransferred') {
      people.set(data.owner.id, data.owner)
    }
  }
  return [...people.values()]
}

/** Returns the events of accounts, and of the members of organizations among them, in the order of the log. */
async function accountEvents(
  { events }: Source,
  accounts: readonly Account[],
  upTo: Position,
  { client, gone }: MomentClient,
): Promise<RecordedEvent[]> {
  /** By stream. An organization may have more events than a call may have arguments. */
  const found: RecordedEvent[][] = []
  const users = new Set(accounts.flatMap(({ kind, id }) => (kind === 'user' ? [id] : [])))

  async function read(stream: string): Promise<RecordedEvent[]> {
    const own: RecordedEvent[] = []
    for await (const event of events.readStream(stream)) {
      if (event.position > upTo) break
      own.push(event)
    }
    return own
  }

  for (const { kind, id } of accounts) {
    if (kind === 'user') continue
    const own = await read(organizationStream(id))
    for (const member of own.flatMap((event) => accountFold.touches(decode(event)))) users.add(Number(member))
    users.delete(id)
    found.push(own)
  }
  const streams = [...users].map(userStream)
  for (let i = 0; i < streams.length; i += CONCURRENT_READS) {
    found.push(...(await Promise.all(streams.slice(i, i + CONCURRENT_READS).map(read))))
    await nextSlice(client)
    gone?.throwIfAborted()
  }
  return found.flat().sort((a, b) => a.position - b.position)
}
