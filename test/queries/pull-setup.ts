/** A repository of alice's on a whole server, with a pull request from a branch that the test fills. */
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type t from 'tap'
import { workTree } from '../git-client.ts'
import { startTestServer } from '../start-server.ts'

export type Content = string | Buffer | { link: string } | { executable: string }

export async function startPulls(test: Pick<typeof t, 'teardown'>, environment: Record<string, string> = {}) {
  const server = await startTestServer(test, environment)
  const alice = await server.as('alice')

  async function repository(t: Parameters<typeof workTree>[0], name: string, options: object = {}) {
    await alice.user.createCurrentUserRepo({ name, auto_init: true, ...options })
    const { id: repoId = 0 } = (await alice.repos.repoGet('alice', name)).data
    const work = await workTree(t, server.gitUrl('alice', `alice/${name}`))
    /** Commits what is there and these files. */
    const commit = async (message: string, files: Record<string, Content> = {}) => {
      for (const [path, content] of Object.entries(files)) {
        const file = join(work.dir, path)
        await mkdir(dirname(file), { recursive: true })
        if (typeof content === 'string' || Buffer.isBuffer(content)) await writeFile(file, content)
        else if ('link' in content) await symlink(content.link, file)
        else {
          await writeFile(file, content.executable)
          await chmod(file, 0o755)
        }
      }
      return await work.commit(message, {})
    }
    const dir = `${server.services.gitDir}/${repoId}.git`
    return {
      work,
      commit,
      /** The bare repository on the server. */
      dir,
      push: (...branches: string[]) => work.git('push', '-q', 'origin', ...branches),
      async open(head = 'topic') {
        const option = { head, base: 'main', title: `From ${head}` }
        const { data } = await alice.repos.repoCreatePullRequest('alice', name, option)
        return data.number ?? 0
      },
      /** Where a loose object of the server's is. */
      objectFile: (id: string) => `${dir}/objects/${id.slice(0, 2)}/${id.slice(2)}`,
      get: (path: string, init: RequestInit = {}) =>
        server.fetch('alice', `/api/v1/repos/alice/${name}/pulls/${path}`, init),
    }
  }
  return { server, alice, repository }
}
