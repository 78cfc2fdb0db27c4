/** Measures a server with a long log: catching up, starting and verifying. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { openSqliteEventStore } from '../src/events/store/sqlite/sqlite.ts'
import { openSqliteReadStore } from '../src/projections/store/sqlite/sqlite.ts'
import type { Group, Sizes } from './bench.ts'
import { startChild } from './child.ts'
import { noteMissingGit, type SeededRepository, seedEvents, skipProcesses } from './seed/events.ts'
import type { Recovered, ServerReady } from './server-process.ts'
import { median, milliseconds, perSecond, type Row } from './table.ts'
import type { Admin } from './target.ts'

export const SMALL = 'small'
export const LARGE = 'large'
/** Empty repositories: `light-<n>`, from 1. */
export const LIGHT = 'light'

/**
 * Seeds the data directory. Measures the rebuild of all read models, a start with current ones, and `mergelog
 * verify`.
 */
export async function measureLog(
  dataDir: string,
  sizes: Sizes,
  wanted: readonly Group[],
): Promise<{ environment: Record<string, string>; admin: Admin; logRows: Row[] }> {
  const environment = environmentOf(dataDir)
  const admin = await makeAdmin(environment)
  const events = await seedFor(admin, dataDir, [
    { name: SMALL, pulls: sizes.small },
    { name: LARGE, pulls: sizes.large },
    ...Array.from({ length: sizes.light }, (_, i) => ({ name: `${LIGHT}-${i + 1}` })),
  ])

  const caughtUp = await catchUp(environment)
  const starts: number[] = []
  const verifications: number[] = []
  const times = wanted.includes('log') ? sizes.rounds : 0
  for (let i = 0; i < times; i++) {
    starts.push(await startOnce(environment))
    verifications.push(await verifyOnce(environment))
  }
  const rate = (events / caughtUp) * 1000
  const start = median(starts)
  const verified = (events / median(verifications)) * 1000
  const many = events.toLocaleString('en')
  const absolute = { ceiling: '', ratio: undefined }
  return {
    environment,
    admin,
    logRows: [
      {
        work: `catch-up of ${many} events`,
        measured: perSecond(rate),
        ...absolute,
        goal: '>= 40,000/s',
        met: rate >= 40_000,
      },
      {
        work: `rebuild of ${many} events`,
        measured: milliseconds(caughtUp),
        ...absolute,
        goal: '1 million < 120 s',
        met: (caughtUp / events) * 1e6 < 120_000,
      },
      {
        work: `start with ${many} events, to healthy`,
        measured: milliseconds(start),
        ...absolute,
        goal: '< 1 s',
        met: start < 1000,
      },
      {
        work: `mergelog verify of ${many} events`,
        measured: perSecond(verified),
        ...absolute,
        goal: '>= 20,000/s',
        met: verified >= 20_000,
      },
    ],
  }
}

/**
 * Returns the milliseconds that a server with new read models takes to fold its log: the duration of the first start
 * minus that of the next one.
 */
export async function catchUp(environment: Record<string, string>): Promise<number> {
  const first = await recoveredAfter(environment)
  return first - (await recoveredAfter(environment))
}

async function recoveredAfter(environment: Record<string, string>): Promise<number> {
  const server = await startChild<ServerReady>('server', environment)
  const { after }: Recovered = await server.ask({ what: 'recovered' })
  await server.stop()
  return after
}

/** The settings of a server on a data directory. */
export function environmentOf(dataDir: string) {
  return {
    DATA_DIR: dataDir,
    HOST: '127.0.0.1',
    PORT: '0',
    GRPC_PORT: '0',
    ADMIN_PASSWORD: 'bench admin password',
    LOG_LEVEL: 'error',
  }
}

/** Milliseconds from the start of the server's process to its first healthy answer. */
async function startOnce(environment: Record<string, string>): Promise<number> {
  const born = performance.now()
  const main = fileURLToPath(new URL('../dist/main.js', import.meta.url))
  const server = spawn(process.execPath, [main], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exit = once(server, 'exit')
  let url: string | undefined
  for await (const line of createInterface(server.stdout)) {
    url = /listens on (\S+)/.exec(line)?.[1]
    if (url !== undefined) break
  }
  if (url === undefined) throw new Error('dist/main.js did not start: run `npm run build`')
  while (!(await fetch(`${url}/healthz`)).ok) await delay(5)
  const ms = performance.now() - born
  server.stdout.resume()
  server.kill('SIGTERM')
  await exit
  return ms
}

/** Milliseconds that `mergelog verify` takes. @throws when it finds a difference */
async function verifyOnce(environment: Record<string, string>): Promise<number> {
  const began = performance.now()
  const command = fileURLToPath(new URL('../dist/cli/mergelog.js', import.meta.url))
  const verify = spawn(process.execPath, [command, 'verify', '--json'], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const [code] = await once(verify, 'exit')
  if (code !== 0) throw new Error(`mergelog verify ended with ${code}`)
  return performance.now() - began
}

/** Starts the server once, which creates the site admin, and creates a token for it. */
export async function makeAdmin(environment: ReturnType<typeof environmentOf>): Promise<Admin> {
  const server = await startChild<ServerReady>('server', environment)
  const [login, password] = ['admin', environment.ADMIN_PASSWORD]
  const headers = {
    authorization: `Basic ${Buffer.from(`${login}:${password}`).toString('base64')}`,
    'content-type': 'application/json',
  }
  const base = `${server.ready.url}/api/v1`
  const body = JSON.stringify({ name: 'bench', scopes: ['all'] })
  const user: { id: number } = JSON.parse(await (await fetch(`${base}/user`, { headers })).text())
  const created = await fetch(`${base}/users/${login}/tokens`, { method: 'POST', headers, body })
  const token: { sha1: string } = JSON.parse(await created.text())
  await server.stop()
  return { id: user.id, login, password, token: token.sha1 }
}

/**
 * Seeds repositories of the admin into the log of a stopped server. Resolves to the number of appended
 * events.
 */
export async function seedFor(
  owner: Admin,
  dataDir: string,
  repositories: readonly SeededRepository[],
): Promise<number> {
  const store = openSqliteEventStore(join(dataDir, 'events.db'))
  const author = { id: owner.id, login: owner.login }
  const appended = await seedEvents(store, { owner: { ...author, kind: 'user' }, author, repositories })
  const position = await store.lastPosition()
  await store.close()
  const views = openSqliteReadStore(join(dataDir, 'views.db'))
  await skipProcesses(views, position)
  await views.close()
  await noteMissingGit(dataDir)
  return appended
}
