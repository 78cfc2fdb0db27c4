/** Git as a person uses it: a work tree in a directory of its own. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type t from 'tap'

const run = promisify(execFile)

const ENV = {
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
  /** Writes files and commits them; resolves to the commit's id. */
  commit(message: string, files: Record<string, string>): Promise<string>
}

/** A clone of `url`, or an empty repository with a first branch `main`. Gone when the test ends. */
export async function workTree(test: Pick<typeof t, 'teardown'>, url?: string): Promise<WorkTree> {
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-work-'))
  test.teardown(() => rm(dir, { recursive: true, force: true, maxRetries: 3 }))
  const git = async (...args: string[]) => {
    const { stdout } = await run('git', args, { cwd: dir, env: ENV, maxBuffer: 64 * 1024 * 1024 })
    return stdout.trim()
  }
  await (url === undefined ? git('init', '-q', '-b', 'main') : git('clone', '-q', url, '.'))
  return {
    dir,
    git,
    async commit(message, files) {
      for (const [name, content] of Object.entries(files)) await writeFile(join(dir, name), content)
      await git('add', '-A')
      await git('commit', '-q', '--allow-empty', '-m', message)
      return git('rev-parse', 'HEAD')
    },
  }
}
