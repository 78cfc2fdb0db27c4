/** A whole server for one test file: its own data directory, free ports, and Gitea's own client to drive it. */
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { giteaApi } from 'gitea-js'
import { type DestinationStream, pino } from 'pino'
import type t from 'tap'
import { loadConfig } from '../src/config/config.ts'
import { type Server, startServer } from '../src/server/server.ts'
import { ADMIN_PASSWORD, addToken, addUser, basic, copyTemplate, passwordOf } from './server-template.ts'

export { ADMIN_PASSWORD, passwordOf }

export type Gitea = ReturnType<typeof giteaApi>

export interface TestServer extends Server {
  dataDir: string
  /** Gitea's client, signed in with a token of that user; the user is made when it does not exist. */
  as(login: string): Promise<Gitea>
  /** The same without credentials. */
  anonymous: Gitea
  /** `http://login:password@…/owner/repo.git` for a git client. */
  gitUrl(login: string, fullName: string): string
  /** A request as that user, for calls that the client does not support. */
  fetch(login: string | null, path: string, init?: RequestInit): Promise<Response>
}

/** The status of an answer, also of one that Gitea's client rejects with. */
export async function statusOf(answer: Promise<{ status: number }>): Promise<number> {
  return (await answer.catch(statusOfRejection)).status
}

function statusOfRejection(error: unknown): { status: number } {
  if (error instanceof Response) return error
  throw error
}

/** The data directory, and the user `admin`, which a template cannot know. */
const OWN_START = ['EVENTSTORE_URL', 'MONGODB_URL', 'ADMIN_PASSWORD']

/** A new data directory is a copy of the template; resolves to its tokens. */
async function peopleIn(dataDir: string, environment: Record<string, string>): Promise<Map<string, string>> {
  await mkdir(dataDir, { recursive: true })
  const isNew = (await readdir(dataDir)).length === 0
  if (!isNew || OWN_START.some((name) => environment[name] !== undefined)) return new Map()
  return copyTemplate(dataDir)
}

/**
 * Starts a server; it stops, and its data is deleted, when the test ends. `admin`, `alice`, `bob`, `carol` and `dave`
 * exist already, unless other stores or another admin are requested. `log`: instead of the output.
 */
export async function startTestServer(
  test: Pick<typeof t, 'teardown'>,
  environment: Record<string, string> = {},
  log?: DestinationStream,
): Promise<TestServer> {
  const dataDir = environment.DATA_DIR ?? (await mkdtemp(join(tmpdir(), 'mergelog-test-')))
  const tokens = await peopleIn(dataDir, environment)
  const config = loadConfig({
    DATA_DIR: dataDir,
    PORT: '0',
    GRPC_PORT: '0',
    ADMIN_PASSWORD,
    LOG_LEVEL: 'error',
    // On a busy machine a command waits longer: the next query of a test relies on it.
    PROJECTION_WAIT_MS: '30000',
    // Most tests choose the watchers themselves.
    AUTO_WATCH_NEW_REPOS: 'off',
    ...environment,
  })
  const server = await startServer(config, pino({ level: config.logLevel }, log))
  test.teardown(async () => {
    await server.stop()
    if (environment.DATA_DIR === undefined) await rm(dataDir, { recursive: true, force: true, maxRetries: 3 })
  })
  await server.recovered

  const request = (login: string | null, path: string, init: RequestInit = {}) => {
    const headers = new Headers(init.headers)
    if (login !== null) headers.set('authorization', basic(login))
    if (typeof init.body === 'string' && !headers.has('content-type')) {
      headers.set('content-type', 'application/json')
    }
    return fetch(`${server.listensAt}${path}`, { ...init, headers })
  }

  async function token(login: string): Promise<string> {
    const { views } = server.services
    const account = await views.accounts.findOne({ loginKey: login.toLowerCase() })
    if (account === undefined) await addUser(server.services, login)
    return addToken(server.listensAt, login)
  }

  return {
    ...server,
    dataDir,
    async as(login) {
      const known = tokens.get(login) ?? (await token(login))
      return giteaApi(server.listensAt, { token: known, customFetch: fetch })
    },
    anonymous: giteaApi(server.listensAt, { customFetch: fetch }),
    gitUrl(login, fullName) {
      const url = new URL(`${server.listensAt}/${fullName}.git`)
      url.username = login
      url.password = passwordOf(login)
      return url.href
    },
    fetch: request,
  }
}
