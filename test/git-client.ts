/** Git as a person uses it: a work tree in a directory of its own. */
import { execFile } from 'node:child_process'
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
  /** Runs git there; resolves to what it prints, trimmed, and rejects when it fails. */
  git(...args: string[]): Promise<string>
  /** The same with another environment. */
  gitWith(environment: Record<string, string>, ...args: string[]): Promise<string>
  /** Writes files and commits them; resolves to the commit's id. */
  commit(message: string, files: Record<string, string>): Promise<string>
}

/** Runs git in a directory; resolves to what it prints, trimmed, and rejects when it fails. */
export async function gitIn(
  dir: string,
  args: readonly string[],
  env: Record<string, string> = GIT_ENVIRONMENT,
): Promise<string> {
  return (await run('git', args, { cwd: dir, env, maxBuffer: 64 * 1024 * 1024 })).stdout.trim()
}

/** A clone of `url`, or an empty repository with a first branch `main`. Gone when the test ends. */
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
