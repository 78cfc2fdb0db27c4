import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { forkOf } from '../../../src/api/repositories/repositories.ts'
import { takeClaim } from '../../../src/commands/execution/claims.ts'
import type { EventStore } from '../../../src/events/store/event-store.ts'
import { claimKeys } from '../../../src/events/streams.ts'
import { createClaimAges } from '../../../src/services/writes/claim-ages.ts'
import { failAppendsFrom } from '../../failing-log.ts'
import { workTree } from '../../git-client.ts'
import { hostedWork } from '../../hosted-work.ts'
import { withoutCounters } from '../../queries/history/replay/recorded-answers.ts'
import { startTestServer, statusOf } from '../../start-server.ts'
import { aContext } from '../../stores.ts'

const server = await startTestServer(t)
const [admin, alice, bob, carol] = await Promise.all(
  ['admin', 'alice', 'bob', 'carol'].map((login) => server.as(login)),
)
if (!admin || !alice || !bob || !carol) throw new Error('no clients')

/** A repository of alice with two branches and a tag. */
async function base(name: string, options: object = {}) {
  const made = await alice?.user.createCurrentUserRepo({
    name,
    auto_init: true,
    description: 'Words',
    ...options,
  })
  const id = made?.data.id ?? 0
  const { branch, push } = await hostedWork(t, server, {
    login: 'alice',
    repoId: id,
    fullName: `alice/${name}`,
  })
  const tip = await branch('feature/x', { 'a.txt': 'a\n' })
  await push(`${tip}:refs/tags/v1`)
  return { id, tip, push }
}

const branches = async (owner: string, name: string) =>
  (await admin.repos.repoListBranches(owner, name)).data.map((branch) => [branch.name, branch.commit?.id])
const forksCount = async (owner: string, name: string) =>
  (await admin.repos.repoGet(owner, name)).data.forks_count
const post = (login: string | null, path: string, body?: string, headers: Record<string, string> = {}) =>
  server.fetch(login, `/api/v1/repos/${path}/forks`, {
    method: 'POST',
    headers,
    ...(body === undefined ? {} : { body }),
  })

t.test('a fork is a repository of its own with the branches, tags and objects of its base', async (t) => {
  const { id, tip } = await base('app')
  const made = await bob.repos.createFork('alice', 'app', {})
  t.equal(made.status, 202)
  t.match(made.data, {
    full_name: 'bob/app',
    owner: { login: 'bob' },
    description: 'Words',
    fork: true,
    empty: false,
    private: false,
    default_branch: 'main',
    forks_count: 0,
    parent: {
      id,
      full_name: 'alice/app',
      owner: { login: 'alice' },
      forks_count: 1,
      fork: false,
      parent: null,
    },
    permissions: { admin: true, push: true, pull: true },
  })
  t.strictSame((await bob.repos.repoGet('bob', 'app')).data, made.data)
  t.match((await bob.repos.repoGet('alice', 'app')).data, { fork: false, parent: null, forks_count: 1 })
  t.strictSame(await branches('bob', 'app'), await branches('alice', 'app'))

  const work = await workTree(t, server.gitUrl('bob', 'bob/app'))
  t.equal(await work.git('branch', '--show-current'), 'main')
  t.equal(await work.git('rev-parse', 'origin/feature/x'), tip)
  t.equal(await work.git('rev-parse', 'v1^{commit}'), tip)
  const own = await work.commit("Bob's", { 'b.txt': 'b\n' })
  await work.git('push', '-q', 'origin', 'HEAD:main')
  t.equal((await bob.repos.repoGetBranch('bob', 'app', 'main')).data.commit?.id, own)
  t.not(
    (await bob.repos.repoGetBranch('alice', 'app', 'main')).data.commit?.id,
    own,
    'the base has not moved',
  )

  t.equal((await forkOf(server.services, id, made.data.owner?.id ?? 0))?.id, made.data.id)
  t.equal(await forkOf(server.services, id, 999), undefined)
  const events = []
  for await (const { type, data } of server.services.events.readStream(`git-${made.data.id}`, {
    maxCount: 1,
  })) {
    events.push({ type, data })
  }
  t.match(events, [{ type: 'RefsUpdated', data: { cause: 'fork' } }])
})

t.test('the name and the organization of a fork can be chosen', async (t) => {
  await base('lib')
  t.match((await bob.repos.createFork('alice', 'lib', { name: 'my-lib' })).data, { full_name: 'bob/my-lib' })
  await carol.orgs.orgCreate({ username: 'acme' })
  const forked = await carol.repos.createFork('alice', 'lib', { organization: 'ACME' })
  t.match(forked.data, {
    full_name: 'acme/lib',
    owner: { login: 'acme' },
    parent: { full_name: 'alice/lib' },
  })

  const absent = await post('admin', 'alice/lib')
  t.equal(absent.status, 202, 'without a body')
  t.match(await absent.json(), { full_name: 'admin/lib' })
  const { id } = await base('nulls')
  const nulls = await post('bob', 'alice/nulls', JSON.stringify({ name: null, organization: null }))
  t.match(await nulls.json(), { full_name: 'bob/nulls', parent: { id } }, 'null is as if left out')

  t.equal(await statusOf(bob.repos.createFork('alice', 'lib', { organization: 'acme' })), 403)
  const member = (permission: string) =>
    server.fetch('carol', '/api/v1/orgs/acme/members/bob', {
      method: 'PUT',
      body: JSON.stringify({ permission }),
    })
  await member('read')
  t.equal(await statusOf(bob.repos.createFork('alice', 'nulls', { organization: 'acme' })), 403)
  await member('write')
  const byMember = await bob.repos.createFork('alice', 'nulls', { organization: 'acme' })
  t.match(byMember.data, { full_name: 'acme/nulls', permissions: { admin: false, push: true } })
})

t.test('a refused fork has a reason and leaves nothing', async (t) => {
  await base('guarded')
  await base('secret', { private: true })
  await alice.user.createCurrentUserRepo({ name: 'bare' })
  const fork = (name: string, body = {}) => statusOf(bob.repos.createFork('alice', name, body))

  t.equal(await statusOf(server.anonymous.repos.createFork('alice', 'guarded', {})), 401)
  t.equal(await statusOf(server.anonymous.repos.createFork('alice', 'secret', {})), 404)
  t.equal(await fork('secret'), 404, 'who may not read it')
  t.equal(await fork('nothing'), 404)
  t.equal(await fork('guarded', { organization: 'nowhere' }), 404)
  t.equal(await fork('guarded', { organization: 'alice' }), 404, 'a user is not an organization')
  t.equal(await fork('bare'), 403, 'an empty repository')
  for (const name of ['', '..', 'a/b', 'a b', 'x.git', '--x', 'x'.repeat(101)]) {
    const answer = await post('bob', 'alice/guarded', JSON.stringify({ name }))
    t.equal(answer.status, 422, JSON.stringify(name))
    t.match(await answer.json(), { errors: [/^name: /] })
  }
  t.equal((await post('bob', 'alice/guarded', '{"name":7}')).status, 422)
  t.equal((await post('bob', 'alice/guarded', '[]')).status, 422)
  t.equal((await post('bob', 'alice/guarded', '{')).status, 400)
  t.equal(await statusOf(alice.repos.createFork('alice', 'guarded', { name: 'mine' })), 409, 'the own one')

  await bob.user.createCurrentUserRepo({ name: 'Guarded' })
  const { length: directories } = await readdir(join(server.dataDir, 'git'))
  t.equal(await fork('guarded'), 409, 'the name is taken')
  t.equal((await readdir(join(server.dataDir, 'git'))).length, directories, 'and nothing was copied')
  t.equal(await forksCount('alice', 'guarded'), 0)
  t.match((await bob.repos.repoGet('bob', 'Guarded')).data, { fork: false, empty: true })
  t.equal(
    (await bob.repos.createFork('alice', 'guarded', { name: 'other' })).status,
    202,
    'at once, by another name',
  )

  const again = await post('bob', 'alice/guarded', '{"name":"third"}')
  t.equal(again.status, 409)
  t.match(await again.json(), { message: /has a fork/ })
  t.equal(await statusOf(bob.repos.repoGet('bob', 'third')), 404)
  t.equal((await bob.user.createCurrentUserRepo({ name: 'third' })).status, 201, 'the name is free')
  t.equal(await forksCount('alice', 'guarded'), 1)
})

t.test('of twenty forks of one repository by one user at the same time, one is made', async (t) => {
  const { id } = await base('rushed')
  const statuses = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      statusOf(carol.repos.createFork('alice', 'rushed', i % 2 === 0 ? {} : { name: `rushed-${i}` })),
    ),
  )
  t.strictSame(statuses.sort(), [202, ...Array(19).fill(409)])
  t.equal(await forksCount('alice', 'rushed'), 1)
  t.equal(await server.services.views.repositories.count({ parentId: id }), 1)
})

t.test('the fork of a private repository is private, and seen by those who may read it', async (t) => {
  await base('hidden', { private: true })
  await alice.repos.repoAddCollaborator('alice', 'hidden', 'bob', { permission: 'read' })
  const made = await bob.repos.createFork('alice', 'hidden', {})
  t.match(made.data, { private: true, parent: { full_name: 'alice/hidden', permissions: { push: false } } })
  t.equal(await statusOf(carol.repos.repoGet('bob', 'hidden')), 404)
  await t.rejects(workTree(t, server.gitUrl('carol', 'bob/hidden')), /not found/)

  await bob.repos.repoAddCollaborator('bob', 'hidden', 'carol', { permission: 'read' })
  t.match(
    (await carol.repos.repoGet('bob', 'hidden')).data,
    { fork: true, parent: null },
    'not what it is a fork of',
  )
  await alice.repos.repoDeleteCollaborator('alice', 'hidden', 'bob')
  t.match((await bob.repos.repoGet('bob', 'hidden')).data, { fork: true, parent: null })
})

t.test(
  'the list of forks is paged and counted, and has only forks that the requester may read',
  async (t) => {
    await base('popular')
    const list = async (login: string | null, query = '') => {
      const answer = await server.fetch(login, `/api/v1/repos/alice/popular/forks${query}`)
      t.equal(answer.status, 200)
      const rows: unknown = await answer.json()
      if (!Array.isArray(rows)) throw new Error('no list')
      const total = answer.headers.get('x-total-count')
      return {
        total,
        names: rows.map((row: { full_name: string }) => row.full_name),
        rows,
        headers: answer.headers,
      }
    }
    t.match(await list(null), { total: '0', names: [] })
    for (const login of ['bob', 'carol', 'dave', 'erin']) {
      await (await server.as(login)).repos.createFork('alice', 'popular', {})
    }
    const ofOrganization = await carol.repos.createFork('alice', 'popular', {
      organization: 'acme',
      name: 'pop',
    })
    t.equal(ofOrganization.status, 202)
    await carol.repos.repoEdit('carol', 'popular', { private: true })
    await carol.repos.repoEdit('acme', 'pop', { private: true })

    const names = ['bob/popular', 'carol/popular', 'dave/popular', 'erin/popular', 'acme/pop']
    const open = ['bob/popular', 'dave/popular', 'erin/popular']
    t.match(await list('carol'), { total: '5', names })
    t.match(await list('admin'), { total: '5', names })
    t.match(await list(null), { total: '3', names: open })
    t.match(await list('dave'), { total: '3', names: open })
    t.match(await list('bob'), { total: '4', names: [...open, 'acme/pop'] }, 'bob is a member of acme')
    t.match((await list('bob')).rows, [
      {
        fork: true,
        parent: { full_name: 'alice/popular' },
        owner: { login: 'bob' },
        permissions: { admin: true },
      },
      { owner: { login: 'dave' }, permissions: { admin: false, pull: true } },
      {},
      { owner: { login: 'acme' }, permissions: { admin: false, push: true } },
    ])

    const second = await list('dave', '?limit=2&page=2')
    t.match(second, { total: '3', names: ['erin/popular'] })
    t.match(second.headers.get('link'), /limit=2&page=1>; rel="first"/)
    t.match(await list('dave', '?limit=x&page=0'), { total: '3' })

    await carol.repos.repoAddCollaborator('carol', 'popular', 'dave', { permission: 'read' })
    t.match(await list('dave'), { total: '4' })
    await carol.repos.repoDeleteCollaborator('carol', 'popular', 'dave')
    t.match(await list('dave'), { total: '3' })
    await carol.repos.repoEdit('carol', 'popular', { private: false })
    t.match(await list('dave'), { total: '4' })

    const { data } = await alice.repos.listForks('alice', 'popular')
    t.equal(data.length, 4)
    t.equal(await statusOf(alice.repos.listForks('alice', 'nothing')), 404)
    await base('unseen', { private: true })
    t.equal(await statusOf(bob.repos.listForks('alice', 'unseen')), 404)
    t.equal(await statusOf(server.anonymous.repos.listForks('alice', 'unseen')), 404)
  },
)

t.test(
  'a deleted fork is not counted and can be made again; a fork of a fork counts for its parent',
  async (t) => {
    const { id } = await base('tree')
    await bob.repos.createFork('alice', 'tree', {})
    const second = await carol.repos.createFork('bob', 'tree', {})
    t.match(second.data, { parent: { full_name: 'bob/tree', fork: true } })
    t.equal(await statusOf(carol.repos.createFork('alice', 'tree', {})), 409, 'the name')
    t.equal((await carol.repos.createFork('alice', 'tree', { name: 'tree-2' })).status, 202, 'another base')
    t.strictSame([await forksCount('alice', 'tree'), await forksCount('bob', 'tree')], [2, 1])

    await carol.repos.repoDelete('carol', 'tree-2')
    t.strictSame([await forksCount('alice', 'tree'), await forksCount('bob', 'tree')], [1, 1])
    t.equal((await alice.repos.listForks('alice', 'tree')).headers.get('x-total-count'), '1')
    const again = await carol.repos.createFork('alice', 'tree', { name: 'tree-3' })
    t.equal(again.status, 202)
    t.equal((await forkOf(server.services, id, again.data.owner?.id ?? 0))?.name, 'tree-3')
    t.equal(await forksCount('alice', 'tree'), 2)
  },
)

t.test('forks still work when their base is deleted', async (t) => {
  const { tip } = await base('mortal')
  await bob.repos.createFork('alice', 'mortal', {})
  t.equal((await alice.repos.repoDelete('alice', 'mortal')).status, 204)

  t.match((await bob.repos.repoGet('bob', 'mortal')).data, { fork: true, parent: null, empty: false })
  const work = await workTree(t, server.gitUrl('bob', 'bob/mortal'))
  t.equal(await work.git('rev-parse', 'origin/feature/x'), tip)
  const next = await work.commit('On', { 'c.txt': 'c\n' })
  await work.git('push', '-q', 'origin', 'HEAD:main')
  t.equal((await bob.repos.repoGetBranch('bob', 'mortal', 'main')).data.commit?.id, next)
  await work.git('fsck', '--strict')
  t.equal((await carol.repos.createFork('bob', 'mortal', {})).status, 202)
  t.equal((await bob.repos.repoDelete('bob', 'mortal')).status, 204)
  await workTree(t, server.gitUrl('carol', 'carol/mortal'))

  await base('mortal')
  t.equal(await forksCount('alice', 'mortal'), 0, 'a new one of that name has none of them')
})

t.test('more branches than fit into one event are all recorded', async (t) => {
  const { push } = await base('wide')
  await push(...Array.from({ length: 510 }, (_, i) => `main:refs/heads/b/${i}`))
  t.equal((await bob.repos.createFork('alice', 'wide', {})).status, 202)
  const listed = await bob.repos.repoListBranches('bob', 'wide', { limit: 1 })
  t.equal(listed.headers.get('x-total-count'), '512')
})

t.test('forking with the same Idempotency-Key again gives the same fork', async (t) => {
  await base('once')
  const once = (body: object) =>
    post('bob', 'alice/once', JSON.stringify(body), { 'idempotency-key': 'fork once' })
  const both = await Promise.all([once({}), once({})])
  t.strictSame(
    both.map(({ status }) => status),
    [202, 202],
  )
  const [first, second] = await Promise.all(both.map((answer) => answer.json()))
  t.strictSame(withoutCounters(second), withoutCounters(first))
  t.strictSame(withoutCounters(await (await once({})).json()), withoutCounters(first))
  t.equal((await once({ name: 'other' })).status, 422, 'another body is a mistake')
  t.equal(await forksCount('alice', 'once'), 1)
  t.strictSame(await branches('bob', 'once'), await branches('alice', 'once'))
  await bob.repos.repoDelete('bob', 'once')
  t.equal((await once({})).status, 404, 'deleted since')
  t.equal((await bob.repos.createFork('alice', 'once', {})).status, 202, 'the retries hold no claim')
})

t.test('claims of a fork that a crash cut off are taken over after their grace', async (t) => {
  const { id } = await base('orphaned')
  const { id: bobId } = (await bob.user.userGetCurrent()).data
  const keys = [claimKeys.fork(id, bobId ?? 0), claimKeys.repository(bobId ?? 0, 'orphaned')]
  const { events } = server.services
  for (const key of keys) {
    await takeClaim(server.services, aContext(), { key, holder: 'repo-987654', stillHolds: async () => true })
  }
  let now = 0
  const position = await events.lastPosition()
  server.services.writeState.claimAges = createClaimAges({ node: 'another', position }, () => now)
  now = 60_000
  t.equal((await bob.repos.createFork('alice', 'orphaned', {})).status, 202)

  const young = await base('young')
  const claim = {
    key: claimKeys.fork(young.id, bobId ?? 0),
    holder: 'repo-987655',
    stillHolds: async () => true,
  }
  await takeClaim(server.services, aContext(), claim)
  t.equal(await statusOf(bob.repos.createFork('alice', 'young', {})), 409, 'it may be on its way')
})

t.test('a fork whose claims were taken over while it was copied leaves nothing', async (t) => {
  await base('slow')
  const { services } = server
  const { events } = services
  let repo = ''
  const append: EventStore['append'] = async (stream, appended, expected) => {
    if (appended[0]?.type === 'RepositoryCreated' && repo === '') {
      repo = stream
      const { metadata } = appended[0]
      const own = { id: randomUUID(), type: 'CreationAbandoned', data: { key: 'fork' } }
      const abandoned = { ...own, metadata: { ...metadata, schema: 1 } }
      await events.append(stream, [abandoned], 'no-stream')
    }
    return events.append(stream, appended, expected)
  }
  services.events = { ...events, append }
  t.teardown(() => {
    services.events = events
  })
  t.equal(await statusOf(bob.repos.createFork('alice', 'slow', {})), 409)
  t.match(repo, /^repo-\d+$/)
  t.notOk((await readdir(services.gitDir)).includes(`${repo.slice('repo-'.length)}.git`))
  t.equal(await statusOf(bob.repos.repoGet('bob', 'slow')), 404)
  t.equal(await forksCount('alice', 'slow'), 0)
})

t.test('a crash between the appends of a fork leaves no half fork, and a retry completes it', async (t) => {
  const DATA_DIR = t.testdir()
  const first = await startTestServer(t, { DATA_DIR, LOG_LEVEL: 'fatal' })
  const owner = await first.as('olga')
  await first.as('paul')
  await owner.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const work = await workTree(t, first.gitUrl('olga', 'olga/app'))
  await work.git('push', '-q', 'origin', 'HEAD:refs/heads/other')
  let running = first

  const request = (login: string, path: string, init?: RequestInit) =>
    running.fetch(login, `/api/v1/repos/${path}`, init)
  const get = async (path: string): Promise<unknown> => (await request('paul', path)).json()

  // The appends of a fork: its number, two claims, its creation, its refs.
  const deaths = [
    [2, 'after'],
    [4, 'before'],
    [4, 'after'],
    [5, 'after'],
  ] as const
  for (const [n, when] of deaths) {
    const crash = `${when} append ${n}`
    const fork = () =>
      request('paul', 'olga/app/forks', {
        method: 'POST',
        headers: { 'idempotency-key': crash },
        body: JSON.stringify({ name: 'mine' }),
      })
    failAppendsFrom(running.services, n, when)
    t.equal((await fork()).status, 503, crash)
    await running.stop()
    running = await startTestServer(t, { DATA_DIR, LOG_LEVEL: 'fatal' })

    const expected = await get('olga/app/branches')
    const left = await request('paul', 'paul/mine')
    const isMade = n === 5 || (n === 4 && when === 'after')
    t.equal(left.status, isMade ? 200 : 404, `${crash}: the fork is there when its event is`)
    if (isMade) {
      t.match(await left.json(), { empty: false, fork: true })
      t.match(await get('paul/mine/branches'), namesAndTips(expected), `${crash}: whole`)
    }
    t.match(await get('olga/app'), { forks_count: isMade ? 1 : 0 }, crash)

    t.equal((await fork()).status, 202, `${crash}: retried`)
    t.match(await get('paul/mine/branches'), namesAndTips(expected), `${crash}: retried and whole`)
    t.match(await get('paul/mine'), { empty: false, parent: { forks_count: 1 } }, crash)
    await workTree(t, running.gitUrl('paul', 'paul/mine'))
    t.equal((await request('paul', 'paul/mine', { method: 'DELETE' })).status, 204)
  }
})

function namesAndTips(branches: unknown): { name: string; commit: { id: string } }[] {
  if (!Array.isArray(branches)) throw new Error('no list')
  return branches.map(({ name, commit }: { name: string; commit: { id: string } }) => ({
    name,
    commit: { id: commit.id },
  }))
}
