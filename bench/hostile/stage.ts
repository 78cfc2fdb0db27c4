/** The setup of `npm run hostile`: a server with honest users, and mallory, a user without special permissions. */
import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface Stage {
  url: string
  /** Directory of the work trees. */
  directory: string
  /** The number of honest users `honest-<n>`, from 0. Each has a repository `app` with pull request 1 and a clone. */
  honest: number
  /** Number of lines of each file of `mallory/evil`. Its pull request 1 changes all of them. */
  lines: number
}

const PASSWORD = 'a password for the stage'
export const MALLORY = 'mallory'
export const honestName = (n: number) => `honest-${n}`
export const cloneOf = ({ directory }: Stage, n: number) => join(directory, honestName(n))

/** The value of an `Authorization` header of a user of the stage. */
export const authorization = (login: string, password = PASSWORD) =>
  `Basic ${Buffer.from(`${login}:${password}`).toString('base64')}`

export function gitUrl({ url }: Stage, login: string, repository: string): string {
  return `${url.replace('://', `://${login}:${encodeURIComponent(PASSWORD)}@`)}/${repository}.git`
}

const GIT_ENVIRONMENT = {
  PATH: process.env.PATH ?? '',
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_AUTHOR_NAME: 'Stage',
  GIT_AUTHOR_EMAIL: 'stage@example.org',
  GIT_COMMITTER_NAME: 'Stage',
  GIT_COMMITTER_EMAIL: 'stage@example.org',
}

export async function git(cwd: string, ...args: string[]): Promise<string> {
  return (await run('git', args, { cwd, env: GIT_ENVIRONMENT, maxBuffer: 1 << 26 })).stdout.trim()
}

/** Sends a request to the API as a user of the stage. @throws for any status but 2xx */
export async function api<T>(
  { url }: Stage,
  login: string,
  method: string,
  path: string,
  body?: object,
  password?: string,
): Promise<T> {
  const answer = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: {
      authorization: authorization(login, password),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return JSON.parse(text || 'null')
}

/** Fills an empty server. */
export async function setStage(stage: Stage, adminPassword: string): Promise<void> {
  const names = Array.from({ length: stage.honest }, (_, n) => honestName(n))
  for (const name of [MALLORY, ...names]) {
    const user = {
      username: name,
      email: `${name}@example.org`,
      password: PASSWORD,
      must_change_password: false,
    }
    await api(stage, 'admin', 'POST', '/admin/users', user, adminPassword)
  }
  await Promise.all([
    ...names.map((name) => withPull(stage, name, 'app', [{ 'a.txt': 'one\n' }, { 'a.txt': 'two\n' }])),
    withPull(stage, MALLORY, 'evil', [longFiles(stage.lines, 'before'), longFiles(stage.lines, 'after')]),
  ])
}

function longFiles(lines: number, word: string): Record<string, string> {
  const text = Array.from({ length: lines }, (_, i) => `${(i * 2_654_435_761) % 1_000_003} ${word}\n`).join(
    '',
  )
  return { 'a.txt': text, 'b.txt': text }
}

/** A public repository with pull request 1, and its clone. */
async function withPull(
  stage: Stage,
  login: string,
  name: string,
  [before, after]: [Record<string, string>, Record<string, string>],
): Promise<void> {
  const dir = join(stage.directory, login)
  await mkdir(dir, { recursive: true })
  await api(stage, login, 'POST', '/user/repos', { name })
  const commit = async (files: Record<string, string>) => {
    for (const [file, text] of Object.entries(files)) await writeFile(join(dir, file), text)
    await git(dir, 'add', '-A')
    await git(dir, 'commit', '-q', '-m', 'A change')
  }
  await git(dir, 'init', '-q', '-b', 'main')
  await git(dir, 'remote', 'add', 'origin', gitUrl(stage, login, `${login}/${name}`))
  await commit(before)
  await git(dir, 'checkout', '-q', '-b', 'topic')
  await commit(after)
  await git(dir, 'push', '-q', 'origin', 'main', 'topic')
  const opening = { head: 'topic', base: 'main', title: 'A change' }
  await api(stage, login, 'POST', `/repos/${login}/${name}/pulls`, opening)
}
