/** A git user: runs the real git client, isolated from the machine's configuration, and makes small histories. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { packet } from '../../src/git/pkt-line.ts'

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

/**
 * Commits a tree of exactly these files on top of HEAD. Returns the commit's id. Works in bare repositories too,
 * where it moves no branch.
 */
export async function commit(
  dir: string,
  message: string,
  files: Record<string, string>,
  parents: string[],
): Promise<string> {
  const entries: string[] = []
  for (const [name, content] of Object.entries(files)) {
    const blob = await userGit(dir, ['hash-object', '-w', '--stdin'], content)
    entries.push(`100644 blob ${blob}\t${name}\0`)
  }
  const tree = await userGit(dir, ['mktree', '-z'], entries.join(''))
  const args = ['commit-tree', tree, ...parents.flatMap((parent) => ['-p', parent])]
  return await userGit(dir, args, `${message}\n`)
}

/** The request body that pushes the history of `sha` from `work` to a ref that does not exist. */
export async function pushBody(work: string, ref: string, sha: string): Promise<Buffer> {
  const args = ['pack-objects', '--revs', '-q', `${work}/sent`]
  const name = await userGit(work, args, `${sha}\n`)
  const pack = await readFile(`${work}/sent-${name}.pack`)
  return Buffer.concat([packet(`${'0'.repeat(40)} ${sha} ${ref}\0report-status`), Buffer.from('0000'), pack])
}
