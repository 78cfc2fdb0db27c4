/** A git server of a test, with one empty repository. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { createRepository } from '../../src/git/repository/repository.ts'
import { initWork, tryGit, userGit } from './client.ts'
import { type GitServerHooks, startGitServer } from './git-server.ts'

/** Starts it in a directory of its own, `root`. Both end with the test. */
export async function serveRepository(test: Test, hooks: GitServerHooks = {}) {
  const root = await mkdtemp(join(tmpdir(), 'git-server-'))
  const server = await startGitServer(root, hooks)
  test.teardown(async () => {
    await server.close()
    await rm(root, { recursive: true, force: true })
  })
  const dir = `${root}/one.git`
  await createRepository(dir, { defaultBranch: 'main' })
  return { root, server, dir, url: `${server.url}/one.git`, work: `${root}/work` }
}

/** The same with an empty work tree at `work`, which has the repository as its origin. */
export async function serveWorkTree(test: Test, hooks: GitServerHooks = {}) {
  const served = await serveRepository(test, hooks)
  await initWork(served.work)
  await userGit(served.work, ['remote', 'add', 'origin', served.url])
  return { ...served, push: (...args: string[]) => tryGit(served.work, ['push', ...args]) }
}
