/** isomorphic-git, an independent implementation of the protocol, which browsers use. */
import fs from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import git from 'isomorphic-git'
import http from 'isomorphic-git/http/node'
import t, { type Test } from 'tap'
import { passwordOf, startTestServer } from '../../start-server.ts'

const server = await startTestServer(t)
const [alice] = await Promise.all([server.as('alice'), server.as('bob')])
const author = { name: 'Alice', email: 'alice@example.org' }

const signedIn = (username: string, password = passwordOf(username)) => ({
  http,
  onAuth: () => ({ username, password }),
})

async function clone(test: Test, name: string, as = signedIn('alice'), options: object = {}) {
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-isomorphic-'))
  test.teardown(() => rm(dir, { recursive: true, force: true }))
  const url = `${server.url}/alice/${name}.git`
  await git.clone({ fs, dir, url, ...as, ...options })
  return {
    dir,
    async commit(message: string, options: object = {}) {
      await writeFile(join(dir, 'a.txt'), message)
      await git.add({ fs, dir, filepath: 'a.txt' })
      return git.commit({ fs, dir, message, author, ...options })
    },
    push: (options: object = {}) => git.push({ fs, dir, ...as, ...options }),
    fetch: () => git.fetch({ fs, dir, tags: true, prune: true, ...as }),
    tip: (ref: string) => git.resolveRef({ fs, dir, ref }),
  }
}

/** The status and message of an error. */
async function refusal(attempt: Promise<unknown>): Promise<string> {
  const error: unknown = await attempt.catch((problem) => problem)
  if (!(error instanceof git.Errors.HttpError)) throw error
  return `${error.data.statusCode} ${error.data.response.trim()}`
}

async function repository(name: string, options: object = {}) {
  await alice.user.createCurrentUserRepo({ name, auto_init: true, private: true, ...options })
  return name
}

t.test('it clones, fetches and pushes: new, forward, forced, tags, deletions', async (t) => {
  const name = await repository('all')
  const work = await clone(t, name)
  const other = await clone(t, name)
  const first = await work.commit('First')
  for (const remoteRef of ['main', 'topic']) t.match(await work.push({ remoteRef }), { ok: true })
  await work.commit('Second')
  t.match(await work.push({ remoteRef: 'topic' }), { ok: true })
  const third = await work.commit('Third', { parent: [first] })
  await t.rejects(work.push({ remoteRef: 'topic' }), { code: 'PushRejectedError' })
  t.match(await work.push({ remoteRef: 'topic', force: true }), { ok: true })
  await git.annotatedTag({ fs, dir: work.dir, ref: 'v1', message: 'One', tagger: author })
  t.match(await work.push({ ref: 'v1' }), { ok: true })

  await other.fetch()
  t.equal(await other.tip('refs/remotes/origin/main'), first)
  t.equal(await other.tip('refs/remotes/origin/topic'), third)
  t.equal(await other.tip('refs/tags/v1'), await work.tip('refs/tags/v1'))

  const shallow = await clone(t, name, signedIn('alice'), { depth: 1 })
  t.equal((await git.log({ fs, dir: shallow.dir })).length, 1)
  await git.fetch({ fs, dir: shallow.dir, depth: 1, relative: true, ...signedIn('alice') })
  t.equal((await git.log({ fs, dir: shallow.dir })).length, 2)

  t.match(await work.push({ remoteRef: 'topic', delete: true }), { ok: true })
  const wanted = ['HEAD', 'refs/heads/main', 'refs/tags/v1']
  for (const protocolVersion of [1, 2] as const) {
    const url = `${server.url}/alice/${name}`
    const refs = await git.listServerRefs({ url, protocolVersion, ...signedIn('alice') })
    t.same(
      refs.map(({ ref }) => ref),
      wanted,
      `version ${protocolVersion}`,
    )
  }
})

t.test('it shows the reason of a refusal', async (t) => {
  const name = await repository('refusing')
  const work = await clone(t, name)
  await work.commit('Mine')
  await alice.repos.repoCreateBranchProtection('alice', name, { rule_name: 'main', enable_push: false })
  await t.rejects(work.push(), {
    message: /refs\/heads\/main: the branch is protected: you may not push to it/,
  })
  t.equal(await refusal(clone(t, name, signedIn('bob'))), '404 repository not found')
  t.equal(await refusal(clone(t, name, signedIn('alice', 'wrong'))), '401 bad credentials')
  await alice.repos.repoEdit('alice', name, { archived: true })
  t.match(await refusal(work.push()), /^403 the repository is archived/)
})

t.test(
  'it initializes an empty repository, with its own branch, and follows a renamed repository',
  async (t) => {
    const name = await repository('begun', { auto_init: false })
    const work = await clone(t, name)
    const first = await work.commit('First')
    t.match(await work.push(), { ok: true })
    await alice.repos.repoEdit('alice', name, { name: 'begun-elsewhere' })
    await work.commit('Second')
    t.match(await work.push(), { ok: true }, 'it follows')
    const again = await clone(t, name)
    t.equal(await again.tip('HEAD'), await work.tip('HEAD'))
    t.not(await again.tip('HEAD'), first)
  },
)
