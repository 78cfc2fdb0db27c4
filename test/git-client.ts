/** A git client with a work tree of its own. */
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type t from 'tap'

const run = promisify(execFile)

export type Test = Pick<typeof t, 'teardown'>

export const GIT_ENVIRONMENT = {
  PATH: process.env.PATH ?? '',
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_AUTHOR_NAME: 'Tester',
  GIT_AUTHOR_EMAIL: 'tester@example.org',
  GIT_COMMITTER_NAME: 'Tester',
  GIT_COMMITTER_EMAIL: 'tester@example.org',
}

export interface WorkTree {
  dir: string
  /** Runs git there; resolves to its output, trimmed, and rejects when it fails. */
  git(...args: string[]): Promise<string>
  /** Runs it with another environment. */
  gitWith(environment: Record<string, string>, ...args: string[]): Promise<string>
  /** Writes files and commits them; resolves to the commit's id. */
  commit(message: string, files: Record<string, string>): Promise<string>
}

/** Runs git in a directory; resolves to its output, trimmed, and rejects when it fails. */
export async function gitIn(
  dir: string,
  args: readonly string[],
  env: Record<string, string> = GIT_ENVIRONMENT,
): Promise<string> {
  return (await run('git', args, { cwd: dir, env, maxBuffer: 64 * 1024 * 1024 })).stdout.trim()
}

/** Runs a command that reads its input: `git fast-import`, `git update-ref --stdin`. */
export function gitWithInput(dir: string, args: readonly string[], input: string | Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn('git', args, { cwd: dir, env: GIT_ENVIRONMENT })
    let out = ''
    let problem = ''
    child.stdout.on('data', (chunk) => {
      out += chunk
    })
    child.stderr.on('data', (chunk) => {
      problem += chunk
    })
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) resolve(out.trim())
      else reject(new Error(`git ${args.join(' ')}: ${problem}`))
    })
    child.stdin.end(input)
  })
}

/** Returns a clone of `url`, or an empty repository with the branch `main`. Deleted when the test ends. */
export async function workTree(test: Test, url?: string): Promise<WorkTree> {
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-work-'))
  test.teardown(() => rm(dir, { recursive: true, force: true, maxRetries: 3 }))
  const git = (...args: string[]) => gitIn(dir, args)
  await (url === undefined ? git('init', '-q', '-b', 'main') : git('clone', '-q', url, '.'))
  return {
    dir,
    git,
    gitWith: (environment, ...args) => gitIn(dir, args, environment),
    async commit(message, files) {
      for (const [name, content] of Object.entries(files)) await writeFile(join(dir, name), content)
      await git('add', '-A')
      await git('commit', '-q', '--allow-empty', '-m', message)
      return git('rev-parse', 'HEAD')
    },
  }
}
