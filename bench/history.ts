/**
 * Measures the history and the replays of a pull request with thousands of events. The ceiling is bare
 * fastify that sends the same JSON.
 */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { append } from '../src/commands/execution/append.ts'
import { decode } from '../src/events/codec.ts'
import type { DomainEvent } from '../src/events/domain-events.ts'
import type { EventStore } from '../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../src/events/store/sqlite/sqlite.ts'
import { pullStream } from '../src/events/streams.ts'
import { createWriteState } from '../src/services/writes/write-state.ts'
import type { BareReady } from './bare-process.ts'
import type { Sizes } from './bench.ts'
import { startChild } from './child.ts'
import { environmentOf, makeAdmin, seedFor } from './log.ts'
import { WARM_UP_SECONDS } from './rates.ts'
import type { ServerReady } from './server-process.ts'
import { median, milliseconds, percentile, perSecond, type Row, ratioRow } from './table.ts'
import type { Admin } from './target.ts'

const NAME = 'history'
/** The first seeded pull request that is open. */
const INDEX = 3
/** The goal for the p99 of the answers, in milliseconds. */
const GOAL = 150

/** Sends one request at a time: this measures latency, not throughput. */
export async function measureHistory(dataDir: string, sizes: Sizes): Promise<Row[]> {
  const environment = environmentOf(dataDir)
  const admin = await makeAdmin(environment)
  await seedFor(admin, dataDir, [{ name: NAME, pulls: INDEX }])
  const store = openSqliteEventStore(join(dataDir, 'events.db'))
  const stream = await seedLong(store, admin, sizes.historyEvents)
  const times = await timesOf(store, stream)
  const readings: number[] = []
  for (let i = 0; i < sizes.rounds; i++) readings.push(await readRate(store, stream))
  await store.close()

  const server = await startChild<ServerReady>('server', environment)
  await server.ask({ what: 'recovered' })
  const bare = await startChild<BareReady>('bare')
  const pull = `${server.ready.url}/api/v1/repos/${admin.login}/${NAME}/pulls/${INDEX}`
  const headers = { authorization: `token ${admin.token}` }

  async function answer(url: string, accept = 'application/json'): Promise<{ text: string; ms: number }> {
    const began = performance.now()
    const response = await fetch(url, { headers: { ...headers, accept } })
    const text = await response.text()
    const ms = performance.now() - began
    if (!response.ok) throw new Error(`GET ${url}: ${response.status} ${text}`)
    return { text, ms }
  }

  /** Alternates server and ceiling, so that other load on the machine affects both. */
  async function compare(work: string, path: () => string): Promise<Row> {
    const first = await answer(`${pull}${path()}`)
    await bare.ask({ body: JSON.parse(first.text) })
    const measure = async (seconds: number) => {
      const own: number[] = []
      const ceiling: number[] = []
      const end = performance.now() + seconds * 1000
      while (performance.now() < end) {
        ceiling.push((await answer(bare.ready.url)).ms)
        own.push((await answer(`${pull}${path()}`)).ms)
      }
      return { own, ceiling }
    }
    await measure(WARM_UP_SECONDS)
    const { own, ceiling } = await measure(sizes.rounds * sizes.seconds)
    const p99 = percentile(own, 0.99)
    return {
      work,
      measured: `${milliseconds(median(own))}, p99 ${milliseconds(p99)}`,
      ceiling: `${milliseconds(median(ceiling))} bare fastify`,
      ratio: median(own) / median(ceiling),
      goal: `p99 < ${GOAL} ms`,
      met: p99 < GOAL,
    }
  }

  async function lines(): Promise<Row> {
    const rates: number[] = []
    for (let i = 0; i <= sizes.rounds; i++) {
      const { text, ms } = await answer(`${pull}/history`, 'application/x-ndjson')
      // The first round is the warm-up.
      if (i > 0) rates.push((text.split('\n').length - 1) / (ms / 1000))
    }
    const [own, ceiling] = [median(rates), median(readings)]
    return ratioRow('all of it, in lines', perSecond(own), `${perSecond(ceiling)} bare reads`, own / ceiling)
  }

  const last = times.length - 1
  const any = () => Math.floor(Math.random() * times.length)
  const rows = [
    await compare(`history of ${times.length.toLocaleString('en')} events, a page`, () => '/history'),
    await compare('the same, the last page', () => `/history?page=${Math.ceil(times.length / 30)}`),
    await compare('the same, of one type', () => '/history?type=TitleChanged'),
    await lines(),
    await compare('its replay at the last revision', () => `/replay?revision=${last}`),
    await compare('the same, at any', () => `/replay?revision=${any()}`),
    await compare('its replay at the last time', () => `/replay?at=${times[last]}`),
    await compare('the same, at any', () => `/replay?at=${times[any()]}`),
  ]
  await bare.stop()
  await server.stop()
  return rows
}

/** Adds comments and new titles to a pull request until it has `length` events. Resolves to its stream. */
async function seedLong(store: EventStore, admin: Admin, length: number): Promise<string> {
  let repoId: number | undefined
  for await (const recorded of store.readAll()) {
    const event = decode(recorded)
    if (event.type === 'RepositoryCreated') repoId = event.data.repoId
  }
  if (repoId === undefined) throw new Error('no repository was seeded')
  const issue = { repoId, index: INDEX }
  const author = { id: admin.id, login: admin.login }
  const stream = pullStream(repoId, INDEX)
  const writer = { events: store, writeState: createWriteState() }
  const opened = await timesOf(store, stream)
  const start = Date.parse(opened.at(-1) ?? '')
  const more = Array.from({ length: length - opened.length }, (_, i) => {
    const event: DomainEvent =
      i % 5 === 4
        ? { type: 'TitleChanged', data: { ...issue, oldTitle: `Title ${i - 5}`, title: `Title ${i}` } }
        : {
            type: 'CommentAdded',
            data: { ...issue, commentId: i + 1, author, body: `Words, ${i}. `.repeat(10) },
          }
    const at = new Date(start + (i + 1) * 1000).toISOString()
    const id = randomUUID()
    const context = { actor: author, at, correlationId: id, causationId: id, written: 0 }
    return append(writer, context, stream, 'seed', [event], 'any')
  })
  await Promise.all(more)
  return stream
}

/** The times of a stream's events. */
async function timesOf(store: EventStore, stream: string): Promise<string[]> {
  const times: string[] = []
  for await (const { metadata } of store.readStream(stream)) times.push(metadata.at)
  return times
}

/** Events per second. */
async function readRate(store: EventStore, stream: string): Promise<number> {
  const began = performance.now()
  const { length } = await timesOf(store, stream)
  return (length / (performance.now() - began)) * 1000
}
