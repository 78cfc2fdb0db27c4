/**
 * Measures a server on EventStoreDB. The ceiling is the driver alone, on the same server in the same run. Without
 * `TEST_EVENTSTORE_URL` the server is the test double. With `TEST_MONGODB_URL`, the read models are in new databases of
 * MongoDB, which are not removed; otherwise they are embedded. A real server should hold no other events, which would
 * be read too.
 */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { END, EventStoreDBClient, excludeSystemEvents, jsonEvent } from '@eventstore/db-client'
import type { NewEvent } from '../src/events/store/event-store.ts'
import { openEventStoreDb } from '../src/events/store/eventstoredb/eventstoredb.ts'
import { openSqliteEventStore } from '../src/events/store/sqlite/sqlite.ts'
import { issueStream } from '../src/events/streams.ts'
import { openSqliteReadStore } from '../src/projections/store/sqlite/sqlite.ts'
import type { Sizes } from './bench.ts'
import { type Child, startChild } from './child.ts'
import type { Load, LoadCommand } from './load-process.ts'
import { catchUp, environmentOf, makeAdmin, seedFor } from './log.ts'
import { skipProcesses } from './seed/events.ts'
import type { ServerReady } from './server-process.ts'
import { median, milliseconds, perSecond, type Row, ratioRow } from './table.ts'
import { api, loadOf, type Target } from './target.ts'
import { CLIENTS } from './writes.ts'

/** The repositories of the measured issues and of the seeded issues. */
const NAME = 'issues'
const SEEDED = 'seeded'
const SEEDED_ID = 1_000_000

export async function measureEventStore(directory: string, sizes: Sizes): Promise<Row[]> {
  const real = process.env.TEST_EVENTSTORE_URL
  const double = real === undefined ? await startDouble('eventstore', join(directory, 'double')) : undefined
  const url = real ?? double?.url ?? ''
  const where = `${real === undefined ? 'the double' : 'EventStoreDB'}${process.env.TEST_MONGODB_URL === undefined ? '' : ' and MongoDB'}`
  const client = EventStoreDBClient.connectionString(url)
  await requireEnd(client)
  const dataDir = join(directory, 'server')
  const environment = { ...environmentOf(dataDir), EVENTSTORE_URL: url, ...readModelsIn('main') }
  const admin = await makeAdmin(environment)
  const events = await seed(url, join(directory, 'seed'), sizes)

  // Before and after the catch-up, because other load on the machine varies.
  const before = await subscriptionRate(client, events)
  // The views are new, so the server folds the whole log. As with an embedded log, processes start at its end.
  const behind = { ...environment, DATA_DIR: join(directory, 'behind'), ...readModelsIn('behind') }
  if (process.env.TEST_MONGODB_URL === undefined) await skipProcessesIn(behind.DATA_DIR, url)
  const caughtUp = (events / (await catchUp(behind))) * 1000
  const read = median([before, await subscriptionRate(client, events)])

  const server = await startChild<ServerReady>('server', environment)
  await server.ask({ what: 'recovered' })
  const target = { server, dataDir, admin, sizes }
  await api(target, 'POST', '/user/repos', { name: NAME })
  await processesAtEnd(server.ready.url)
  const load = await startChild<object>('load')
  const measured = {
    posts: [] as number[],
    one: [] as number[],
    appends: [] as number[],
    append: [] as number[],
  }
  for (let i = 0; i <= sizes.rounds; i++) {
    const amount = Math.ceil(sizes.issuesToOpen / (sizes.rounds + 1))
    const posts = await postIssues(target, load, CLIENTS, amount)
    // Pending work of processes must not slow the measurement of a single client.
    await processesAtEnd(server.ready.url)
    // Medians, because EventStoreDB stops for up to seconds each half minute.
    const one = await postIssues(target, load, 1, Math.ceil(amount / 10))
    const appends = await appendFor(client, CLIENTS, sizes.seconds)
    const append = await appendFor(client, 1, sizes.seconds)
    // The first round is the warm-up.
    if (i === 0) continue
    measured.posts.push(posts.rate)
    measured.one.push(one.p50)
    measured.appends.push(appends.rate)
    measured.append.push(append.p50)
  }
  for (const child of [load, server]) await child.stop()
  await client.dispose()
  await double?.stop()

  const [posts, appends] = [median(measured.posts), median(measured.appends)]
  const [one, append] = [median(measured.one), median(measured.append)]
  return [
    ratioRow(
      `post an issue, ${CLIENTS} clients, on ${where}`,
      perSecond(posts),
      `${perSecond(appends)} plain appends`,
      posts / appends,
      { atLeast: 0.25 },
    ),
    ratioRow(
      `post an issue, one client, on ${where}`,
      milliseconds(one),
      `${milliseconds(append)} one append`,
      one / append,
      { atMost: 4 },
    ),
    ratioRow(
      `catch-up of ${events.toLocaleString('en')} events on ${where}`,
      perSecond(caughtUp),
      `${perSecond(read)} the driver's subscription`,
      caughtUp / read,
      { atLeast: 0.5 },
    ),
  ]
}

/** Time limit of a subscription to new events, in milliseconds. */
const END_MS = 10_000

/**
 * Checks that subscriptions report the end of the old events. Otherwise a server cannot detect that it has caught up,
 * and the measurements would never begin. @throws an error that explains it, or the driver's without a server
 */
export async function requireEnd(client: EventStoreDBClient, withinMs = END_MS): Promise<void> {
  const subscription = client.subscribeToAll({ fromPosition: END })
  try {
    await once(subscription, 'caughtUp', { signal: AbortSignal.timeout(withinMs) })
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'AbortError') throw error
    throw new Error(
      `EventStoreDB did not report within ${withinMs / 1000} s that a subscription is at the end ("caughtUp"). ` +
        'Versions before 23.10 never do: use 23.10 or later.',
    )
  } finally {
    await subscription.unsubscribe().catch(() => undefined)
  }
}

/** Waits until all processes have read the old events, which is work of a new server, not of its requests. */
async function processesAtEnd(url: string): Promise<void> {
  for (;;) {
    const answer = await fetch(`${url}/healthz`)
    const health: { log: number; processes: { position: number }[] } = JSON.parse(await answer.text())
    const { log, processes } = health
    if (processes.every(({ position }) => position >= log)) return
    await setTimeout(100)
  }
}

/** Location of the measured server's read models: a new database, if they are not embedded. */
function readModelsIn(name: string): { MONGODB_URL?: string } {
  const { TEST_MONGODB_URL: url } = process.env
  return url === undefined ? {} : { MONGODB_URL: withDatabase(url, name) }
}

/** Records in new read models that the processes have passed all events. */
async function skipProcessesIn(dataDir: string, url: string): Promise<void> {
  const events = openEventStoreDb(url)
  const position = await events.lastPosition()
  await events.close()
  await mkdir(dataDir, { recursive: true })
  const views = openSqliteReadStore(join(dataDir, 'views.db'))
  await skipProcesses(views, position)
  await views.close()
}

/** Returns the URL with an unused database name. */
export const withDatabase = (url: string, name = 'bench') =>
  url.replace(
    /^(mongodb(?:\+srv)?:\/\/[^/?]+)(?:\/[^?]*)?/,
    (_, servers: string) => `${servers}/${name}_${Date.now()}`,
  )

/** Starts a test double as a process of its own. */
export async function startDouble(
  name: 'eventstore' | 'mongodb',
  data: string,
): Promise<{ url: string; stop(): Promise<void> }> {
  const file = fileURLToPath(new URL(`../test/doubles/${name}.ts`, import.meta.url))
  const child = spawn(process.execPath, [file, '--port', '0', '--data', data], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exit = once(child, 'exit')
  for await (const line of createInterface(child.stdout)) {
    child.stdout.resume()
    return {
      url: line,
      async stop() {
        child.kill('SIGTERM')
        await exit
      },
    }
  }
  throw new Error(`the double ${name} did not start`)
}

/** Seeds issues into an embedded log, and copies their streams. Resolves to the number of copied events. */
async function seed(url: string, directory: string, sizes: Sizes): Promise<number> {
  await mkdir(directory, { recursive: true })
  const owner = await makeAdmin(environmentOf(directory))
  await seedFor(owner, directory, [{ name: SEEDED, issues: sizes.manyIssues }])
  const from = openSqliteEventStore(join(directory, 'events.db'))
  const to = openEventStoreDb(url)
  const streams = new Map<string, NewEvent[]>()
  for await (const event of from.readAll()) {
    // The measured server has its own users, repositories and numbers, so only issues are copied, with the id of a
    // repository that it does not create.
    const [, index] = /^issue-\d+\.(\d+)$/.exec(event.stream) ?? []
    if (index === undefined) continue
    const stream = issueStream(SEEDED_ID, Number(index))
    const copied = { ...event, data: { ...event.data, repoId: SEEDED_ID } }
    streams.set(stream, [...(streams.get(stream) ?? []), copied])
  }
  let events = 0
  const left = streams.entries()
  async function copy(): Promise<void> {
    for (const [stream, recorded] of left) {
      await to.append(stream, recorded, 'no-stream')
      events += recorded.length
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, copy))
  await from.close()
  await to.close()
  return events
}

/** Events per second that the driver's filtered subscription delivers. */
async function subscriptionRate(client: EventStoreDBClient, events: number): Promise<number> {
  const started = performance.now()
  const subscription = client.subscribeToAll({ filter: excludeSystemEvents() })
  let read = 0
  for await (const _ of subscription) {
    read += 1
    if (read === events) break
  }
  return (events / (performance.now() - started)) * 1000
}

/**
 * Measures appends with the driver alone, each to its own stream, like an issue: appends per second, and median
 * duration.
 */
async function appendFor(
  client: EventStoreDBClient,
  clients: number,
  seconds: number,
): Promise<Pick<Load, 'rate' | 'p50'>> {
  const end = performance.now() + seconds * 1000
  const times: number[] = []
  async function writer(): Promise<void> {
    while (performance.now() < end) {
      // Read models skip this type.
      const event = jsonEvent({ type: '$bench', data: { text: 'x'.repeat(200) } })
      const began = performance.now()
      await client.appendToStream(`$bench-${randomUUID()}`, event, { expectedRevision: 'no_stream' })
      times.push(performance.now() - began)
    }
  }
  await Promise.all(Array.from({ length: clients }, writer))
  return { rate: times.length / seconds, p50: median(times) }
}

function postIssues(
  { server, admin }: Target,
  load: Child<object>,
  connections: number,
  amount: number,
): Promise<Load> {
  const command: LoadCommand = {
    url: server.ready.url,
    connections,
    headers: { authorization: `token ${admin.token}` },
    end: { amount },
    write: {
      method: 'POST',
      path: `/api/v1/repos/${admin.login}/${NAME}/issues`,
      body: JSON.stringify({ title: 'Number {n}', body: 'What happens, and what should.' }),
      first: 1,
    },
  }
  return loadOf(load, command)
}
