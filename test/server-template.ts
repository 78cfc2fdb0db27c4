/**
 * A data directory with users, created once and copied for each server of a test, because most tests are not about its
 * preparation (hash five passwords, create five tokens, prepare three databases).
 */
import { createHash } from 'node:crypto'
import { cp, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { hashPassword, makeHashesWith } from '../src/auth/passwords/passwords.ts'
import { keepPassword } from '../src/auth/secrets.ts'
import { createUser } from '../src/commands/users/create.ts'
import { loadConfig } from '../src/config/config.ts'
import { startServer } from '../src/server/server.ts'
import type { Services } from '../src/services/services.ts'
import { exists } from '../src/storage/disk.ts'
import { aContext } from './stores.ts'

export const ADMIN_PASSWORD = 'correct horse battery'

export const passwordOf = (login: string) => (login === 'admin' ? ADMIN_PASSWORD : `password of ${login}`)

export const basic = (login: string) =>
  `Basic ${Buffer.from(`${login}:${passwordOf(login)}`).toString('base64')}`

/** The users of the template, with ids from 2 on; `admin` is the first account. */
const PEOPLE = ['alice', 'bob', 'carol', 'dave']

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const HOME = join(ROOT, '.tap', 'server-template')
const TOKENS = 'tokens.json'

/** A hash that costs nothing to check; other tests cover hashing. */
const CHEAP = { N: 2, r: 1, p: 1 }
const cheapHash = (password: string) => hashPassword(password, CHEAP)
// Otherwise each first sign-in would compute a real hash.
makeHashesWith(CHEAP)

/** Creates a user with the password `passwordOf(login)`, without the cost of a real hash. */
export async function addUser(services: Services, login: string): Promise<void> {
  const { events, projector } = services
  const context = aContext({ at: new Date().toISOString() })
  const details = { login, email: `${login}@example.org`, fullName: '', siteAdmin: false }
  await createUser(services, context, details, passwordOf(login), cheapHash)
  await projector.waitFor(await events.lastPosition(), 60_000)
}

/** Creates a token with all scopes; resolves to it. `url`: of the server. */
export async function addToken(url: string, login: string): Promise<string> {
  const answer = await fetch(`${url}/api/v1/users/${login}/tokens`, {
    method: 'POST',
    headers: { authorization: basic(login), 'content-type': 'application/json' },
    body: JSON.stringify({ name: `test-${Math.random()}`, scopes: ['all'] }),
  })
  const token: unknown = await answer.json()
  if (typeof token !== 'object' || token === null || !('sha1' in token)) {
    throw new Error(`token of ${login}: ${answer.status} ${JSON.stringify(token)}`)
  }
  return String(token.sha1)
}

/** Changes with all sources of a template. */
async function templateKey(): Promise<string> {
  const hash = createHash('sha256').update(process.version)
  hash
    .update(await readFile(fileURLToPath(import.meta.url)))
    .update(await readFile(join(ROOT, 'package.json')))
  const src = join(ROOT, 'src')
  for (const name of (await readdir(src, { recursive: true })).sort()) {
    if (/\.[jt]s$/.test(name)) hash.update(`${name}\0`).update(await readFile(join(src, name)))
  }
  return hash.digest('hex').slice(0, 20)
}

async function make(dir: string): Promise<void> {
  const config = loadConfig({ DATA_DIR: dir, PORT: '0', GRPC_PORT: '0', ADMIN_PASSWORD, LOG_LEVEL: 'error' })
  const { url, services, recovered, stop } = await startServer(config, pino({ level: config.logLevel }))
  await recovered
  const admin = await services.views.accounts.findOne({ loginKey: 'admin' })
  await keepPassword(services.secrets, admin?.id ?? 0, await cheapHash(ADMIN_PASSWORD))
  const tokens: Record<string, string> = { admin: await addToken(url, 'admin') }
  for (const login of PEOPLE) {
    await addUser(services, login)
    tokens[login] = await addToken(url, login)
  }
  await stop()
  await writeFile(join(dir, TOKENS), JSON.stringify(tokens))
}

/** Creates a directory, unless it exists. Of two concurrent processes, the first one's is kept. */
export async function makeOnce(dir: string, make: (draft: string) => Promise<void>): Promise<void> {
  if (await exists(dir)) return
  const draft = `${dir}.${process.pid}`
  await mkdir(draft, { recursive: true })
  await make(draft)
  try {
    await rename(draft, dir)
  } catch (error) {
    await rm(draft, { recursive: true })
    if (!(await exists(dir))) throw error
  }
}

/** The template's path, for the processes that `test/run.ts` starts. */
export const TEMPLATE_VARIABLE = 'MERGELOG_TEST_TEMPLATE'

/** The template's path. The first test process that needs it creates it, even if two do so concurrently. */
export async function templateDir(): Promise<string> {
  const known = process.env[TEMPLATE_VARIABLE]
  if (known !== undefined) return known
  const key = await templateKey()
  const dir = join(HOME, key)
  const found = await readdir(HOME).catch((): string[] => [])
  if (found.includes(key)) return dir
  await makeOnce(dir, make)
  // Of other sources, which are gone.
  for (const name of found) {
    if (!name.startsWith(key)) await rm(join(HOME, name), { recursive: true, force: true })
  }
  return dir
}

let template: Promise<string> | undefined

/** Copies the template to `dataDir`; resolves to the tokens of its users, by login. */
export async function copyTemplate(dataDir: string): Promise<Map<string, string>> {
  template ??= templateDir()
  const from = await template
  const tokens: Record<string, string> = JSON.parse(await readFile(join(from, TOKENS), 'utf8'))
  await cp(from, dataDir, { recursive: true, filter: (source) => source !== join(from, TOKENS) })
  return new Map(Object.entries(tokens))
}
