/** Setup of LFS tests: a pull request whose files point to objects of a fork. */
import type { Test } from 'tap'
import { workTree } from '../../git-client.ts'
import type { TestServer } from '../../start-server.ts'
import { lfsOf, objectOf } from './lfs-client.ts'

const pointer = (content: string) => {
  const { oid, size } = objectOf(content)
  return `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${size}\n`
}

/** Returns the content of an object, or the status of another answer. */
export async function textOf(server: TestServer, fullName: string, content: string) {
  const answer = await lfsOf(server, fullName).get('alice', objectOf(content).oid)
  return answer.status === 200 ? await answer.text() : answer.status
}

const ART = { 'a.psd': 'merged', 'b.psd': 'in no repository' }
/** The files of the pull request, by name. */
export const files = Object.fromEntries(
  Object.entries(ART).map(([name, content]) => [name, pointer(content)]),
)

/** A pull request from a fork; its first file points to an object of the fork. */
export async function artFromFork(t: Test, server: TestServer) {
  const [alice, bob] = [await server.as('alice'), await server.as('bob')]
  const { data: base } = await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const { data: fork } = await bob.repos.createFork('alice', 'app', {})
  for (const content of ['merged', 'elsewhere']) await lfsOf(server, 'bob/app').put('bob', content)
  const work = await workTree(t, server.gitUrl('bob', 'bob/app'))
  await work.git('checkout', '-q', '-b', 'art')
  const head = await work.commit('Add art', files)
  await work.git('push', '-q', 'origin', 'art')
  return { alice, bob, head, baseId: base.id ?? 0, forkId: fork.id ?? 0 }
}

export const ART_PULL = { head: 'bob:art', base: 'main', title: 'Art' }
