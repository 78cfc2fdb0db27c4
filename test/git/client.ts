/** A git user: runs the real git client, isolated from the machine's configuration, and creates small histories. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { packet } from '../../src/git/http/pkt-line.ts'
import { writeObject } from '../../src/git/objects/loose-objects.ts'
import { exists } from '../../src/storage/disk.ts'

export interface ClientResult {
  code: number
  stdout: string
  stderr: string
}

const ENVIRONMENT = {
  PATH: process.env.PATH ?? '',
  LC_ALL: 'C',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_AUTHOR_NAME: 'Ann Author',
  GIT_AUTHOR_EMAIL: 'ann@example.org',
  GIT_COMMITTER_NAME: 'Carl Committer',
  GIT_COMMITTER_EMAIL: 'carl@example.org',
  GIT_CONFIG_COUNT: '2',
  GIT_CONFIG_KEY_0: 'init.defaultBranch',
  GIT_CONFIG_VALUE_0: 'main',
  GIT_CONFIG_KEY_1: 'core.fsync',
  GIT_CONFIG_VALUE_1: 'none',
}

/** Runs the user's git. Resolves also when the exit code is not 0. */
export function tryGit(cwd: string, args: string[], input?: string | Uint8Array): Promise<ClientResult> {
  return new Promise((resolve) => {
    const options = { cwd, env: ENVIRONMENT, maxBuffer: 64 * 1024 * 1024 }
    const child = execFile('git', args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
      resolve({ code, stdout, stderr })
    })
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(input)
  })
}

/** Runs the user's git, which must succeed. Returns its output without the last newline. */
export async function userGit(cwd: string, args: string[], input?: string | Uint8Array): Promise<string> {
  const { code, stdout, stderr } = await tryGit(cwd, args, input)
  if (code !== 0) throw new Error(`git ${args.join(' ')} gave ${code}: ${stderr}`)
  return stdout.trimEnd()
}

/** Makes a work tree at `dir` on branch main. */
export async function initWork(dir: string): Promise<void> {
  await userGit('/', ['init', '-q', dir])
}

/** The object directory of a repository or work tree. */
async function objectsOf(dir: string): Promise<string> {
  const own = join(dir, '.git', 'objects')
  return (await exists(own)) ? own : join(dir, 'objects')
}

/**
 * Commits a tree of exactly these files. Returns the commit's id. Works in bare repositories too. Moves no branch, and
 * starts no process: most tests of git begin with a few commits.
 */
export async function commit(
  dir: string,
  message: string,
  files: Record<string, string>,
  parents: string[],
): Promise<string> {
  const objects = await objectsOf(dir)
  const entries: [name: Buffer, entry: Buffer][] = []
  for (const [name, content] of Object.entries(files)) {
    const blob = await writeObject(objects, 'blob', Buffer.from(content))
    const entry = [Buffer.from(`100644 ${name}\0`), Buffer.from(blob, 'hex')]
    entries.push([Buffer.from(name), Buffer.concat(entry)])
  }
  entries.sort(([a], [b]) => Buffer.compare(a, b))
  const tree = await writeObject(objects, 'tree', Buffer.concat(entries.map(([, entry]) => entry)))
  const at = `${Math.floor(Date.now() / 1000)} +0000`
  const lines = [
    `tree ${tree}`,
    ...parents.map((parent) => `parent ${parent}`),
    `author ${ENVIRONMENT.GIT_AUTHOR_NAME} <${ENVIRONMENT.GIT_AUTHOR_EMAIL}> ${at}`,
    `committer ${ENVIRONMENT.GIT_COMMITTER_NAME} <${ENVIRONMENT.GIT_COMMITTER_EMAIL}> ${at}`,
  ]
  return writeObject(objects, 'commit', Buffer.from(`${lines.join('\n')}\n\n${message}\n`))
}

/** Creates refs, or moves them, in one process. */
export async function setRefs(dir: string, refs: Readonly<Record<string, string>>): Promise<void> {
  const lines = Object.entries(refs).map(([ref, sha]) => `update ${ref} ${sha}\n`)
  await userGit(dir, ['update-ref', '--stdin'], lines.join(''))
}

/** The request body that pushes the history of `sha` from `work` to a ref that does not exist. */
export async function pushBody(work: string, ref: string, sha: string): Promise<Buffer> {
  const args = ['pack-objects', '--revs', '-q', `${work}/sent`]
  const name = await userGit(work, args, `${sha}\n`)
  const pack = await readFile(`${work}/sent-${name}.pack`)
  return Buffer.concat([packet(`${'0'.repeat(40)} ${sha} ${ref}\0report-status`), Buffer.from('0000'), pack])
}
