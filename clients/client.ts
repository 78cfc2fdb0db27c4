/** What the tests of clients share: where the clients are, and how one is run. */
import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import type t from 'tap'
import type { TestServer } from '../test/start-server.ts'

type Test = Pick<typeof t, 'teardown'>

/** The folder in which the clients are installed: see `install.ts`. */
export function clientsFolder(): string {
  const folder = process.env.CLIENTS
  if (folder === undefined) throw new Error('CLIENTS is not set: run this by `npm run test:clients`')
  return folder
}

const program = (name: string) =>
  isAbsolute(name) ? name : join(clientsFolder(), 'node_modules', '.bin', name)

/** Loads a package of the clients. */
export const load = (name: string) => createRequire(join(clientsFolder(), 'package.json'))(name)

/** A directory of its own, gone when the test ends. */
export async function ownFolder(test: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'mergelog-client-'))
  test.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  return folder
}

/** A new access token with all scopes. */
export async function tokenOf(server: TestServer, login: string): Promise<string> {
  const answer = await server.fetch(login, `/api/v1/users/${login}/tokens`, {
    method: 'POST',
    body: JSON.stringify({ name: `client ${Math.random()}`, scopes: ['all'] }),
  })
  const { sha1 }: { sha1: string } = JSON.parse(await answer.text())
  return sha1
}

export interface Ran {
  code: number | null
  output: string
}

/** Runs a program of the clients to its end, with nothing of this machine but the PATH. `name`: an absolute path also works. */
export function runClient(
  name: string,
  args: readonly string[],
  { cwd, env = {} }: { cwd: string; env?: Record<string, string> },
): Promise<Ran> {
  const child = spawn(process.execPath, [program(name), ...args], {
    cwd,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: cwd,
      TMPDIR: cwd,
      NO_COLOR: '1',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_TERMINAL_PROMPT: '0',
      ...env,
    },
  })
  child.stdin.end()
  let output = ''
  const take = (chunk: Buffer) => {
    output += chunk.toString('utf8')
  }
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, output }))
  })
}
