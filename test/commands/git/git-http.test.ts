import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { GitEvent } from '../../../src/events/catalog/branches.ts'
import { decode } from '../../../src/events/codec.ts'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { reconcileRefs } from '../../../src/processes/recovery.ts'
import { workTree } from '../../git-client.ts'
import { passwordOf, startTestServer, statusOf } from '../../start-server.ts'
import { until } from '../../until.ts'

const server = await startTestServer(t, { LOG_LEVEL: 'silent' })
const { services } = server
const [alice] = await Promise.all([server.as('alice'), server.as('bob')])

async function repository(t: Parameters<typeof workTree>[0], name: string, options: object = {}) {
  const { data } = await alice.user.createCurrentUserRepo({ name, auto_init: true, ...options })
  const work = await workTree(t, server.gitUrl('alice', `alice/${name}`))
  return { id: data.id ?? 0, work, url: `${server.url}/alice/${name}.git` }
}

/** Returns the recorded refs of a repository. */
async function refsEvents(repoId: number): Promise<GitEvent['data'][]> {
  const found: GitEvent['data'][] = []
  for await (const recorded of services.events.readStream(`git-${repoId}`)) {
    const event = decode(recorded)
    if (event.type === 'RefsUpdated') found.push(event.data)
  }
  return found
}

t.test('anyone clones a public repository; only writers push', async (t) => {
  const { url } = await repository(t, 'open')
  const anonymous = await workTree(t, url)
  await anonymous.commit('Mine', { 'a.txt': 'a\n' })
  await t.rejects(anonymous.git('push', '-q', 'origin', 'main'), /could not read Username/)
  const bob = await workTree(t, server.gitUrl('bob', 'alice/open'))
  await bob.commit('Mine', { 'a.txt': 'a\n' })
  await t.rejects(bob.git('push', '-q', 'origin', 'main'), /403/)
})

t.test(
  'the first branch of an empty repository becomes the default branch when that is not there',
  async (t) => {
    const work = await workTree(t)
    const head = await work.commit('First', { 'a.txt': 'a\n' })
    const pushed = async (name: string, branches: readonly string[]) => {
      await alice.user.createCurrentUserRepo({ name })
      const url = server.gitUrl('alice', `alice/${name}`)
      await work.git('push', '-q', url, ...branches.map((branch) => `HEAD:refs/heads/${branch}`))
      const { data } = await alice.repos.repoGet('alice', name)
      const clone = await workTree(t, url)
      t.equal(await clone.git('rev-parse', 'HEAD'), head, 'a clone checks it out')
      return data.default_branch
    }
    t.equal(await pushed('first-topic', ['topic']), 'topic')
    t.equal(await pushed('first-master', ['a', 'master', 'z']), 'master')
    t.equal(await pushed('first-main', ['a', 'main', 'master']), 'main')
    const url = server.gitUrl('alice', 'alice/first-synced')
    await alice.user.createCurrentUserRepo({ name: 'first-synced' })
    await work.git('push', '-q', url, 'HEAD:refs/heads/synced/main', 'HEAD:refs/heads/fix/1')
    await work.git('push', '-q', url, 'HEAD:refs/heads/git-annex')
    await work.git('push', '-q', url, 'HEAD:refs/heads/main')
    t.equal(
      (await alice.repos.repoGet('alice', 'first-synced')).data.default_branch,
      'main',
      'not of a topic',
    )
    const several = Array.from({ length: 250 }, (_, i) => `b${`${i}`.padStart(3, '0')}`)
    t.equal(await pushed('first-of-many', [...several, 'main']), 'main', 'also in a later event of the push')

    await work.git('push', '-q', server.gitUrl('alice', 'alice/first-topic'), 'HEAD:refs/heads/main')
    t.equal((await alice.repos.repoGet('alice', 'first-topic')).data.default_branch, 'topic', 'and stays it')

    // A server died after git had moved the ref: recovery records it, and the process continues.
    const { data: cut } = await alice.user.createCurrentUserRepo({ name: 'first-cut-off' })
    const dir = join(server.dataDir, 'git', `${cut.id}.git`)
    await work.git('push', '-q', dir, 'HEAD:refs/heads/topic')
    t.equal(await reconcileRefs(services, cut.id ?? 0), 1)
    await until('the branch is the default one', async () => {
      const { data } = await alice.repos.repoGet('alice', 'first-cut-off')
      return data.default_branch === 'topic'
    })
  },
)

t.test('git shows the reason of a refusal', async (t) => {
  const { url } = await repository(t, 'refusing', { private: true })
  const messageTo = async (login: string, password: string, ...args: string[]) => {
    const work = await workTree(t)
    await work.commit('Mine', { 'a.txt': 'a\n' })
    const target = new URL(url)
    target.username = login
    target.password = password
    const said: unknown = await work
      .git(...args, target.href, ...(args[0] === 'push' ? ['main'] : []))
      .catch((error) => error)
    return said instanceof Error ? said.message : ''
  }
  t.match(await messageTo('alice', 'wrong', 'fetch'), /^remote: bad credentials$/m)
  t.match(await messageTo('bob', passwordOf('bob'), 'fetch'), /^remote: repository not found$/m)
  await alice.repos.repoAddCollaborator('alice', 'refusing', 'bob', { permission: 'read' })
  t.match(await messageTo('bob', passwordOf('bob'), 'push'), /^remote: this needs write permission/m)
  await alice.repos.repoEdit('alice', 'refusing', { archived: true })
  t.match(await messageTo('alice', passwordOf('alice'), 'push'), /^remote: the repository is archived/m)
})

t.test('a private repository asks anonymous clients for credentials and is 404 for strangers', async (t) => {
  await repository(t, 'hidden', { private: true })
  const path = '/alice/hidden.git/info/refs?service=git-upload-pack'
  const anonymous = await server.fetch(null, path)
  t.equal(anonymous.status, 401)
  t.match(anonymous.headers.get('www-authenticate'), /^Basic realm=/)
  t.equal((await server.fetch('bob', path)).status, 404)
  t.equal((await server.fetch(null, path.replace('hidden', 'nowhere'))).status, 401, 'as one that is not')
  t.equal((await server.fetch('bob', path.replace('hidden', 'nowhere'))).status, 404)
  t.equal((await server.fetch('alice', path)).status, 200)
  for (const service of ['git-upload-pack', 'git-receive-pack']) {
    const post = {
      method: 'POST',
      headers: { 'content-type': `application/x-${service}-request` },
      body: '0000',
    }
    t.equal((await server.fetch('bob', `/alice/hidden.git/${service}`, post)).status, 404)
  }
  t.equal((await server.fetch('alice', '/alice/hidden.git/info/refs')).status, 403, 'no dumb protocol')
  t.equal((await server.fetch('alice', '/alice/hidden.git/HEAD')).status, 404)
  t.equal((await server.fetch('alice', '/alice/hidden.git/..%2f..%2fevents.db')).status, 404)
})

t.test('an access token is a password', async (t) => {
  await repository(t, 'tokens', { private: true })
  const tokenFor = async (scope: string) => {
    const body = JSON.stringify({ name: scope, scopes: [scope] })
    const answer = await server.fetch('alice', '/api/v1/users/alice/tokens', { method: 'POST', body })
    return String(JSON.parse(await answer.text()).sha1)
  }
  const [writing, reading] = [await tokenFor('write:repository'), await tokenFor('read:repository')]
  const withToken = (token: string) => {
    const url = new URL(`${server.url}/alice/tokens.git`)
    url.username = 'alice'
    url.password = token
    return url.href
  }
  const work = await workTree(t, withToken(writing))
  await work.commit('With a token', { 'a.txt': 'a\n' })
  await work.git('push', '-q', 'origin', 'main')
  await t.rejects(work.git('push', '-q', withToken(reading), 'main:other'), /403/)
  await t.rejects(workTree(t, withToken('0'.repeat(40))), /Authentication failed/)
})

t.test('every push is one event with the moved refs, and can be read at once', async (t) => {
  const { id, work } = await repository(t, 'events')
  const first = await work.git('rev-parse', 'HEAD')
  const second = await work.commit('Second', { 'a.txt': 'a\n' })
  await work.git('tag', '-a', 'v1', '-m', 'One')
  const tag = await work.git('rev-parse', 'v1')
  await work.git('push', '-q', 'origin', 'main', 'v1', 'main:refs/heads/side')
  t.equal((await alice.repos.repoGetBranch('alice', 'events', 'main')).data.commit?.id, second)
  await work.git('commit', '-q', '--amend', '-m', 'Amended')
  const amended = await work.git('rev-parse', 'HEAD')
  await t.rejects(work.git('push', '-q', 'origin', 'main'), /rejected/, 'not without force')
  await work.git('push', '-q', '-f', 'origin', 'main')
  await work.git('push', '-q', 'origin', ':side', ':v1')
  t.equal(await statusOf(alice.repos.repoGetBranch('alice', 'events', 'side')), 404)

  const told = (await refsEvents(id)).map(({ cause, refs }) => ({
    cause,
    refs: refs.map(({ ref, from, to }) => [ref, from, to]).sort(),
  }))
  t.strictSame(told, [
    { cause: 'auto-init', refs: [['refs/heads/main', null, first]] },
    {
      cause: 'push',
      refs: [
        ['refs/heads/main', first, second],
        ['refs/heads/side', null, second],
        ['refs/tags/v1', null, tag],
      ],
    },
    { cause: 'push', refs: [['refs/heads/main', second, amended]] },
    {
      cause: 'push',
      refs: [
        ['refs/heads/side', second, null],
        ['refs/tags/v1', tag, null],
      ],
    },
  ])
  const [event] = (await refsEvents(id)).slice(1)
  t.equal(event?.commits.length, 1, 'the commit of two branches is there once')
  t.match(
    event?.commits.find(({ sha }) => sha === second),
    {
      message: 'Second\n',
      author: { name: 'Tester', email: 'tester@example.org' },
    },
  )
})

t.test('a mirror push creates heads, tags and notes, and refs of pull requests are refused', async (t) => {
  const { id, work } = await repository(t, 'mirror')
  await work.commit('Mine', { 'a.txt': 'a\n' })
  await work.git('tag', 'v1')
  await work.git('notes', 'add', '-m', 'reviewed')
  await work.git('update-ref', 'refs/pull/7/head', 'HEAD')
  await t.rejects(
    work.git('push', '--mirror', '-o', 'ci.skip', '-o', 'topic=mirror', 'origin'),
    /only the server moves the refs of pull requests/,
  )
  const listed = await work.git('ls-remote', 'origin')
  for (const ref of ['refs/heads/main', 'refs/tags/v1', 'refs/notes/commits']) t.match(listed, ref)
  t.notMatch(listed, 'refs/pull/')
  const last = (await refsEvents(id)).at(-1)
  const moved = last?.refs.map(({ ref }) => ref).filter((ref) => !ref.startsWith('refs/remotes/'))
  t.same(moved?.sort(), ['refs/heads/main', 'refs/notes/commits', 'refs/tags/v1'])
  t.same(last?.options, ['ci.skip', 'topic=mirror'], 'push options are recorded')
  t.equal(await reconcileRefs(services, id), 0, 'a recovery finds nothing more')
  const many = Array.from({ length: 51 }, (_, i) => ['-o', `${i}`]).flat()
  await t.rejects(work.git('push', ...many, 'origin', 'HEAD:refs/heads/many'), /413/)
  await work.git('push', 'origin', ':refs/notes/commits')
  t.same(
    (await refsEvents(id)).at(-1)?.refs.map(({ to }) => to),
    [null],
  )
})

t.test('deleting the default branch and pushing internal refs are refused with a reason', async (t) => {
  const { work } = await repository(t, 'refused')
  await work.commit('More', { 'a.txt': 'a\n' })
  await t.rejects(work.git('push', 'origin', ':main'), /the default branch cannot be deleted/)
  await t.rejects(
    work.git('push', 'origin', 'HEAD:refs/pull/1/head'),
    /only the server moves the refs of pull/,
  )
  await t.rejects(work.git('push', 'origin', 'HEAD:refs/heads/-option'), /the name begins with '-'/)
  t.equal(await work.git('ls-remote', 'origin', 'refs/pull/*', 'refs/heads/-*'), '')
})

t.test('the head of a pull request can be fetched by its number, also when its branch is gone', async (t) => {
  const { work, url } = await repository(t, 'pulls')
  await work.git('checkout', '-q', '-b', 'topic')
  await work.commit('One', { 'a.txt': 'a\n' })
  await work.git('push', '-q', 'origin', 'topic')
  await alice.repos.repoCreatePullRequest('alice', 'pulls', { head: 'topic', base: 'main', title: 'T' })
  const head = await work.commit('Two', { 'a.txt': 'b\n' })
  await work.git('push', '-q', 'origin', 'topic')
  await work.git('push', '-q', 'origin', ':topic')
  const reader = await workTree(t, url)
  await reader.git('fetch', '-q', 'origin', 'refs/pull/1/head')
  t.equal(await reader.git('rev-parse', 'FETCH_HEAD'), head)
})

t.test('shallow and partial clones work, in protocol 2 and in the older ones', async (t) => {
  const { work, url } = await repository(t, 'shapes')
  for (let i = 0; i < 3; i++) await work.commit(`Commit ${i}`, { 'a.txt': `${i}\n` })
  await work.git('push', '-q', 'origin', 'main')
  for (const version of ['0', '1', '2']) {
    const clone = await workTree(t)
    await clone.git('remote', 'add', 'origin', url)
    const protocol = ['-c', `protocol.version=${version}`]
    await clone.git(...protocol, 'fetch', '-q', '--depth=2', 'origin', 'main')
    t.equal(await clone.git('rev-list', '--count', 'FETCH_HEAD'), '2', version)
    await clone.git(...protocol, 'fetch', '-q', '--unshallow', 'origin', 'main')
    t.equal(await clone.git('rev-list', '--count', 'FETCH_HEAD'), '4', version)
  }
  const partial = await workTree(t)
  await partial.git('clone', '-q', '--filter=blob:none', url, 'inner')
  t.equal(await partial.git('-C', 'inner', 'show', 'HEAD:a.txt'), '2')
})

t.test('a compressed body is read, and an invalid one gives 400', async (t) => {
  await repository(t, 'packed')
  const line = (text: string) => `${(text.length + 4).toString(16).padStart(4, '0')}${text}`
  const request = `${line('command=ls-refs\n')}${line('object-format=sha1')}0001${line('peel\n')}0000`
  const ask = (body: Uint8Array<ArrayBuffer> | string, encoding: string) =>
    server.fetch('alice', '/alice/packed.git/git-upload-pack', {
      method: 'POST',
      headers: {
        'content-type': 'application/x-git-upload-pack-request',
        'content-encoding': encoding,
        'git-protocol': 'version=2',
      },
      body,
    })
  const answer = await ask(new Uint8Array(gzipSync(request)), 'gzip')
  t.equal(answer.status, 200)
  t.match(await answer.text(), /refs\/heads\/main/)
  t.equal((await ask(request, 'gzip')).status, 400)
  t.equal((await ask(request, 'br')).status, 415)
})

t.test(
  'a push that the log cannot record fails, and is recorded as soon as the log works again',
  async (t) => {
    const { id, work } = await repository(t, 'outage')
    const tip = await work.commit('Into the dark', { 'a.txt': 'a\n' })
    const { append } = services.events
    services.events.append = async () => {
      throw new StoreUnavailable('the test took the log away')
    }
    t.teardown(() => {
      services.events.append = append
    })
    await t.rejects(work.git('push', '-q', 'origin', 'main'), /503/)
    t.equal(await statusOf(alice.user.createCurrentUserRepo({ name: 'dark' })), 503)
    services.events.append = append
    await until('the push is recorded', async () => {
      const { data } = await alice.repos.repoGetBranch('alice', 'outage', 'main')
      return data.commit?.id === tip
    })
    t.match((await refsEvents(id)).at(-1), {
      cause: 'recovered',
      refs: [{ ref: 'refs/heads/main', to: tip }],
    })
  },
)
