/** The long log: seeding it, catching up on it, and starting with it. */
import { join } from 'node:path'
import { openSqliteEventStore } from '../src/events/sqlite.ts'
import { openSqliteReadStore } from '../src/projections/sqlite.ts'
import type { Sizes } from './bench.ts'
import { startChild } from './child.ts'
import { seed } from './seed.ts'
import type { ServerReady } from './server-process.ts'
import { median, milliseconds, perSecond, type Row } from './table.ts'
import type { Admin } from './target.ts'

export const SMALL = 'small'
export const LARGE = 'large'

/** Seeds the data directory and measures the rebuild of all read models and the start with current ones. */
export async function measureLog(
  dataDir: string,
  sizes: Sizes,
): Promise<{ environment: Record<string, string>; admin: Admin; logRows: Row[] }> {
  const environment = {
    DATA_DIR: dataDir,
    HOST: '127.0.0.1',
    PORT: '0',
    GRPC_PORT: '0',
    ADMIN_PASSWORD: 'bench admin password',
    LOG_LEVEL: 'error',
  }
  const admin = await makeAdmin(environment)
  const events = await seedAll(dataDir, sizes, admin)

  const first = await startChild<ServerReady>('server', environment)
  const listening = performance.now()
  await first.ask({ what: 'recovered' })
  const caughtUp = performance.now() - listening
  await first.stop()

  const starts: number[] = []
  for (let i = 0; i < sizes.rounds; i++) {
    const born = performance.now()
    const next = await startChild<ServerReady>('server', environment)
    await next.ask({ what: 'recovered' })
    starts.push(performance.now() - born)
    await next.stop()
  }
  const rate = (events / caughtUp) * 1000
  const start = median(starts)
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
        goal: '>= 10,000/s',
        met: rate >= 10_000,
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
        goal: '< 2 s',
        met: start < 2000,
      },
    ],
  }
}

/** The first start makes the site admin; a token is how API clients sign in. */
async function makeAdmin(environment: Record<string, string> & { ADMIN_PASSWORD: string }): Promise<Admin> {
  const server = await startChild<ServerReady>('server', environment)
  const [login, password] = ['admin', environment.ADMIN_PASSWORD]
  const headers = {
    authorization: `Basic ${Buffer.from(`${login}:${password}`).toString('base64')}`,
    'content-type': 'application/json',
  }
  const base = `${server.ready.url}/api/v1`
  const body = JSON.stringify({ name: 'bench', scopes: ['all'] })
  const user: { id: number } = JSON.parse(await (await fetch(`${base}/user`, { headers })).text())
  const made = await fetch(`${base}/users/${login}/tokens`, { method: 'POST', headers, body })
  const token: { sha1: string } = JSON.parse(await made.text())
  await server.stop()
  return { id: user.id, login, password, token: token.sha1 }
}

async function seedAll(dataDir: string, { small, large }: Sizes, owner: Admin): Promise<number> {
  const store = openSqliteEventStore(join(dataDir, 'events.db'))
  const appended = await seed(store, {
    owner: { id: owner.id, login: owner.login },
    repositories: { [SMALL]: small, [LARGE]: large },
  })
  const position = await store.lastPosition()
  await store.close()
  // The processes of that server have reacted to all of it, then.
  const views = openSqliteReadStore(join(dataDir, 'views.db'))
  await views.apply([], new Map([['process_pull_heads', { position, version: 1 }]]))
  await views.close()
  return appended
}
