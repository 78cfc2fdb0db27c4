/** A whole server for one test file: its own data directory, free ports, and Gitea's own client to drive it. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { giteaApi } from 'gitea-js'
import { pino } from 'pino'
import type t from 'tap'
import { loadConfig } from '../src/config.ts'
import { type Server, startServer } from '../src/server.ts'

export const ADMIN_PASSWORD = 'correct horse battery'

export type Gitea = ReturnType<typeof giteaApi>

export interface TestServer extends Server {
  dataDir: string
  /** Gitea's client, signed in with a token of that user; the user is made when it does not exist. */
  as(login: string): Promise<Gitea>
  /** The same without credentials. */
  anonymous: Gitea
  /** `http://login:password@…/owner/repo.git` for a git client. */
  gitUrl(login: string, fullName: string): string
  /** A request as that user, for what the client can't say. */
  fetch(login: string | null, path: string, init?: RequestInit): Promise<Response>
}

export const passwordOf = (login: string) => (login === 'admin' ? ADMIN_PASSWORD : `password of ${login}`)
const basic = (login: string) => `Basic ${Buffer.from(`${login}:${passwordOf(login)}`).toString('base64')}`

/** The status of an answer, also of one that Gitea's client rejects with. */
export async function statusOf(answer: Promise<{ status: number }>): Promise<number> {
  return (await answer.catch(statusOfRejection)).status
}

function statusOfRejection(error: unknown): { status: number } {
  if (error instanceof Response) return error
  throw error
}

/** Starts a server; it stops, and its data is gone, when the test ends. */
export async function startTestServer(
  test: Pick<typeof t, 'teardown'>,
  environment: Record<string, string> = {},
): Promise<TestServer> {
  const dataDir = environment.DATA_DIR ?? (await mkdtemp(join(tmpdir(), 'mergelog-test-')))
  const config = loadConfig({
    DATA_DIR: dataDir,
    PORT: '0',
    GRPC_PORT: '0',
    ADMIN_PASSWORD,
    LOG_LEVEL: 'error',
    ...environment,
  })
  const server = await startServer(config, pino({ level: config.logLevel }))
  test.teardown(async () => {
    await server.stop()
    if (environment.DATA_DIR === undefined) await rm(dataDir, { recursive: true, force: true, maxRetries: 3 })
  })
  await server.recovered

  const made = new Set(['admin'])
  const request = (login: string | null, path: string, init: RequestInit = {}) => {
    const headers = new Headers(init.headers)
    if (login !== null) headers.set('authorization', basic(login))
    if (typeof init.body === 'string' && !headers.has('content-type')) {
      headers.set('content-type', 'application/json')
    }
    return fetch(`${server.url}${path}`, { ...init, headers })
  }

  async function make(login: string): Promise<void> {
    if (made.has(login)) return
    const user = { username: login, email: `${login}@example.org`, password: passwordOf(login) }
    const created = await request('admin', '/api/v1/admin/users', {
      method: 'POST',
      body: JSON.stringify(user),
    })
    if (created.status !== 201) throw new Error(`user ${login}: ${created.status} ${await created.text()}`)
    made.add(login)
  }

  return {
    ...server,
    dataDir,
    async as(login) {
      await make(login)
      const body = JSON.stringify({ name: `test-${Math.random()}`, scopes: ['all'] })
      const answer = await request(login, `/api/v1/users/${login}/tokens`, { method: 'POST', body })
      const token: unknown = await answer.json()
      if (typeof token !== 'object' || token === null || !('sha1' in token)) throw new Error('no token')
      return giteaApi(server.url, { token: String(token.sha1), customFetch: fetch })
    },
    anonymous: giteaApi(server.url, { customFetch: fetch }),
    gitUrl(login, fullName) {
      const url = new URL(`${server.url}/${fullName}.git`)
      url.username = login
      url.password = passwordOf(login)
      return url.href
    },
    fetch: request,
  }
}
