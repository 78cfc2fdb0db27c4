/** Measures reads of a repository at past moments (`?at=`). */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { decode, schemaOf } from '../src/events/codec.ts'
import type { DomainEvent } from '../src/events/domain-events.ts'
import { openSqliteEventStore } from '../src/events/store/sqlite/sqlite.ts'
import { pullStream } from '../src/events/streams.ts'
import type { Sizes } from './bench.ts'
import { startChild } from './child.ts'
import { environmentOf, makeAdmin, seedFor } from './log.ts'
import type { ServerReady } from './server-process.ts'
import { median, milliseconds, type Row } from './table.ts'
import type { Admin } from './target.ts'

const MANY = 'many'
const FEW = 'few'
/** Pull requests of the small repository: together they have about a hundred events. */
const FEW_PULLS = 12
/** Pull requests that are discussed at the same time. */
const DISCUSSED = 60
/** Number of events between two moments: ten minutes, with an event each second. */
const EVENTS_BETWEEN = 600
/** Number of measured reads of each kind. */
const READS = 20

export async function measureMoments(
  dataDir: string,
  { momentPulls, momentEvents }: Pick<Sizes, 'momentPulls' | 'momentEvents'>,
): Promise<Row[]> {
  const environment = environmentOf(dataDir)
  const admin = await makeAdmin(environment)
  await seedFor(admin, dataDir, [
    { name: FEW, pulls: FEW_PULLS },
    { name: MANY, pulls: momentPulls },
  ])
  const positions = await seedDiscussions(dataDir, admin, momentPulls, momentEvents)
  const server = await startChild<ServerReady>('server', environment)
  await server.ask({ what: 'recovered' })

  async function answer(path: string): Promise<{ text: string; ms: number }> {
    const began = performance.now()
    const url = `${server.ready.url}/api/v1/repos/${admin.login}/${path}`
    const response = await fetch(url, { headers: { authorization: `token ${admin.token}` } })
    const text = await response.text()
    const ms = performance.now() - began
    if (!response.ok) throw new Error(`GET ${url}: ${response.status} ${text}`)
    return { text, ms }
  }
  const readAll = async (path: string) => {
    const times: number[] = []
    for (let i = 0; i < READS; i++) times.push((await answer(path)).ms)
    return median(times)
  }
  const row = (work: string, ms: number, goal: number): Row => ({
    work,
    measured: milliseconds(ms),
    ceiling: '',
    ratio: undefined,
    goal: `< ${milliseconds(goal)}`,
    met: ms < goal,
  })

  // The threads and the code are warm, as in a server that was asked for another repository before.
  const of = (name: string) => answer(`${name}/history?limit=50&page=1`)
  const small: { position: number }[] = JSON.parse((await of(FEW)).text)
  const smallTimes: number[] = []
  for (const { position } of small.slice(-READS)) {
    smallTimes.push((await answer(`${FEW}/pulls?at=@${position}`)).ms)
  }
  const now = await readAll(`${MANY}/pulls`)
  const last = positions.length - 2
  const later = positions[last] ?? 0
  const earlier = positions[Math.max(0, last - EVENTS_BETWEEN)] ?? 0
  const first = (await answer(`${MANY}/pulls?at=@${earlier}`)).ms
  const another = (await answer(`${MANY}/pulls?at=@${later}`)).ms
  const further = await readAll(`${MANY}/pulls?at=@${later}`)
  await server.stop()
  const size = `${momentPulls.toLocaleString('en')} pulls, ${momentEvents.toLocaleString('en')} events`
  return [
    row(`past of ${size}: a new moment`, first, 3000),
    row('the same, ten minutes later', another, 300),
    { ...row('the same, further reads', further, 2 * now), goal: `as now: ${milliseconds(now)}` },
    row('past of 100 events: a new moment', median(smallTimes), 30),
  ]
}

/** Adds comments and new titles, mostly to recent pull requests, until the repository has `length` events. Returns positions. */
async function seedDiscussions(
  dataDir: string,
  { id: authorId, login }: Admin,
  pulls: number,
  length: number,
): Promise<number[]> {
  const store = openSqliteEventStore(join(dataDir, 'events.db'))
  let repoId = 0
  let made = 0
  let at = 0
  for await (const recorded of store.readAll()) {
    const event = decode(recorded)
    if (event.type === 'RepositoryCreated') repoId = event.data.repoId
    if ('repoId' in event.data && event.data.repoId === repoId) made += 1
    at = Date.parse(event.metadata.at)
  }
  const author = { id: authorId, login }
  const more = Math.max(0, length - made)
  const positions: number[] = []
  for (let i = 0; i < more; ) {
    const appends: Promise<{ position: number }>[] = []
    for (; i < more && appends.length < 1000; i++) {
      const recent = Math.floor((i / more) * Math.max(0, pulls - DISCUSSED))
      const issue = { repoId, index: 1 + recent + Math.floor(Math.random() * Math.min(pulls, DISCUSSED)) }
      const event: DomainEvent =
        i % 5 === 4
          ? { type: 'TitleChanged', data: { ...issue, oldTitle: `Title ${i - 5}`, title: `Title ${i}` } }
          : {
              type: 'CommentAdded',
              data: { ...issue, commentId: i + 1, author, body: `Words, ${i}. `.repeat(10) },
            }
      at += 1000
      const eventId = randomUUID()
      const metadata = {
        actor: author,
        at: new Date(at).toISOString(),
        correlationId: eventId,
        causationId: eventId,
        schema: schemaOf(event.type),
      }
      const { type, data } = event
      appends.push(
        store.append(pullStream(repoId, issue.index), [{ id: eventId, type, data, metadata }], 'any'),
      )
    }
    for (const { position } of await Promise.all(appends)) positions.push(position)
  }
  await store.close()
  return positions.sort((a, b) => a - b)
}
