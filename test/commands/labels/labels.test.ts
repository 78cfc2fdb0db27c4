import t from 'tap'
import { labelsByIds } from '../../../src/api/labels/labels.ts'
import { startTestServer, statusOf } from '../../start-server.ts'

const server = await startTestServer(t)
const { services } = server
const [admin, alice, bob] = await Promise.all([server.as('admin'), server.as('alice'), server.as('bob')])
await server.as('carol')

/** Status and body of a request, also of one that Gitea's client can't make. */
async function call(login: string | null, method: string, path: string, body?: unknown, headers = {}) {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body), headers }
  const answer = await server.fetch(login, `/api/v1${path}`, init)
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
}

const repository = (name: string, options: object = {}) =>
  alice.user.createCurrentUserRepo({ name, ...options })

/** An organization of alice's; bob may write, carol may read. */
async function organization(username: string, options: object = {}) {
  await alice.orgs.orgCreate({ username, ...options })
  await call('alice', 'PUT', `/orgs/${username}/members/bob`, { permission: 'write' })
  await call('alice', 'PUT', `/orgs/${username}/members/carol`, { permission: 'read' })
}

const position = async () => {
  let last = 0
  for await (const event of services.events.readAll()) last = event.position
  return last
}

t.test('a label of a repository is made, read, changed and deleted', async (t) => {
  await repository('crud')
  const { data: label, status } = await alice.repos.issueCreateLabel('alice', 'crud', {
    name: ' kind/bug ',
    color: '#F0A',
    description: 'Broken',
    exclusive: true,
  })
  t.equal(status, 201)
  const id = label.id ?? 0
  t.same(label, {
    id,
    name: 'kind/bug',
    color: 'ff00aa',
    description: 'Broken',
    exclusive: true,
    is_archived: false,
    url: `${server.url}/api/v1/repos/alice/crud/labels/${id}`,
  })
  t.same((await server.anonymous.repos.issueGetLabel('alice', 'crud', id)).data, label)

  const edited = await alice.repos.issueEditLabel('alice', 'crud', id, { color: '00ff00', is_archived: true })
  t.equal(edited.status, 200)
  const now = { ...label, color: '00ff00', is_archived: true }
  t.same(edited.data, now)
  t.same((await server.anonymous.repos.issueGetLabel('alice', 'crud', id)).data, now)
  const nulls = { name: null, color: null, description: null, exclusive: null, is_archived: null }
  t.same((await call('alice', 'PATCH', `/repos/alice/crud/labels/${id}`, nulls)).body, now, 'null is absent')

  t.equal((await alice.repos.issueDeleteLabel('alice', 'crud', id)).status, 204)
  t.equal(await statusOf(alice.repos.issueGetLabel('alice', 'crud', id)), 404)
  t.equal((await alice.repos.issueDeleteLabel('alice', 'crud', id)).status, 204, 'it is not there any more')
  t.equal(await statusOf(alice.repos.issueEditLabel('alice', 'crud', id, { name: 'x' })), 404)
  t.same((await alice.repos.issueListLabels('alice', 'crud')).data, [])
})

t.test('labels are listed by name, ignoring case, in pages', async (t) => {
  await repository('list')
  for (const name of ['beta', 'Alpha', 'delta', 'Gamma', 'alpha']) {
    await alice.repos.issueCreateLabel('alice', 'list', { name, color: '#fff' })
  }
  const names = async (query: object) => {
    const { data, headers } = await server.anonymous.repos.issueListLabels('alice', 'list', query)
    return [data.map(({ name }) => name), headers.get('x-total-count')]
  }
  t.same(await names({}), [['Alpha', 'alpha', 'beta', 'delta', 'Gamma'], '5'])
  t.same(await names({ page: 2, limit: 2 }), [['beta', 'delta'], '5'])
  t.same(await names({ page: 9, limit: 2 }), [[], '5'])
})

t.test('an organization has its own labels', async (t) => {
  await organization('acme')
  await repository('apart')
  const { data: label, status } = await bob.orgs.orgCreateLabel('acme', { name: 'wide', color: '#00aabb' })
  t.equal(status, 201)
  const id = label.id ?? 0
  t.match(label, { name: 'wide', color: '00aabb', url: `${server.url}/api/v1/orgs/acme/labels/${id}` })
  t.same((await server.anonymous.orgs.orgGetLabel('acme', id)).data, label)
  t.same((await server.anonymous.orgs.orgListLabels('acme')).data, [label])

  t.equal(await statusOf(alice.repos.issueGetLabel('alice', 'apart', id)), 404)
  t.equal(await statusOf(alice.repos.issueEditLabel('alice', 'apart', id, { name: 'taken' })), 404)
  t.equal((await alice.repos.issueDeleteLabel('alice', 'apart', id)).status, 204, 'it is not there')
  t.same((await server.anonymous.orgs.orgGetLabel('acme', id)).data, label, 'nothing of that changed it')

  t.match((await admin.orgs.orgEditLabel('acme', id, { name: 'wider' })).data, { name: 'wider' })
  t.equal((await alice.orgs.orgDeleteLabel('acme', id)).status, 204)
  t.equal(await statusOf(alice.orgs.orgGetLabel('acme', id)), 404)
})

t.test('users without write access change nothing', async (t) => {
  await repository('open')
  await repository('secret', { private: true })
  await organization('guild')
  await organization('lodge', { visibility: 'private' })
  const color = '#fff'
  const made = await alice.repos.issueCreateLabel('alice', 'open', { name: 'a', color })
  const hidden = await alice.repos.issueCreateLabel('alice', 'secret', { name: 'a', color })
  const wide = await alice.orgs.orgCreateLabel('guild', { name: 'a', color })
  const inner = await alice.orgs.orgCreateLabel('lodge', { name: 'a', color })
  const cases = [
    [null, '/repos/alice/open', made.data.id, 200, 401],
    ['bob', '/repos/alice/open', made.data.id, 200, 403],
    [null, '/repos/alice/secret', hidden.data.id, 404, 404],
    ['bob', '/repos/alice/secret', hidden.data.id, 404, 404],
    [null, '/orgs/guild', wide.data.id, 200, 401],
    ['carol', '/orgs/guild', wide.data.id, 200, 403],
    [null, '/orgs/lodge', inner.data.id, 404, 404],
    ['carol', '/orgs/lodge', inner.data.id, 200, 403],
    ['alice', '/orgs/nowhere', 1, 404, 404],
    ['alice', '/orgs/bob', 1, 404, 404],
    ['alice', '/repos/alice/nowhere', 1, 404, 404],
  ] as const
  const before = await position()
  for (const [login, home, id, read, write] of cases) {
    const name = `${login} ${home}`
    t.equal((await call(login, 'GET', `${home}/labels`)).status, read, `list ${name}`)
    t.equal((await call(login, 'GET', `${home}/labels/${id}`)).status, read, `read ${name}`)
    t.equal((await call(login, 'POST', `${home}/labels`, { name: 'b', color })).status, write, `make ${name}`)
    t.equal((await call(login, 'PATCH', `${home}/labels/${id}`, { name: 'b' })).status, write, `edit ${name}`)
    t.equal((await call(login, 'DELETE', `${home}/labels/${id}`)).status, write, `delete ${name}`)
  }
  t.equal(await position(), before)
})

t.test(
  '`labels/{name}` reads, changes and deletes a label of exactly that name; a number is an id',
  async (t) => {
    await repository('named')
    await repository('elsewhere')
    await organization('namedorg')
    for (const home of ['/repos/alice/named', '/orgs/namedorg']) {
      const make = async (name: string) =>
        (await call('alice', 'POST', `${home}/labels`, { name, color: '#fff' })).body.id
      const [id, slashed] = [await make('bug'), await make('kind/é b')]
      await make('12345678')
      const get = async (name: string) => (await call(null, 'GET', `${home}/labels/${name}`)).body
      t.match(await get('bug'), { id, name: 'bug' })
      t.match(await get(encodeURIComponent('kind/é b')), { id: slashed })
      for (const other of ['Bug', 'bu', '12345678']) {
        t.equal((await call(null, 'GET', `${home}/labels/${other}`)).status, 404, other)
      }
      const before = await position()
      t.equal((await call('carol', 'DELETE', `${home}/labels/bug`)).status, 403)
      t.equal((await call('alice', 'DELETE', '/repos/alice/elsewhere/labels/bug')).status, 204)
      t.equal(await position(), before, 'nothing is changed')
      t.match(await call('alice', 'PATCH', `${home}/labels/bug`, { color: '#000' }), {
        status: 200,
        body: { id, color: '000000' },
      })
      t.equal((await call('alice', 'DELETE', `${home}/labels/bug`)).status, 204)
      t.equal((await call('alice', 'GET', `${home}/labels/${id}`)).status, 404)
    }
  },
)

t.test(
  'an id that is not a positive int64 gives 404; DELETE of a label that is not there is 204',
  async (t) => {
    await repository('ids')
    await organization('idorg')
    const before = await position()
    const bad = [
      '0',
      '-1',
      '1.5',
      '01',
      'bug',
      '99999',
      '9223372036854775807',
      '9223372036854775808',
      '%00',
      '%F0',
    ]
    for (const home of ['/repos/alice/ids', '/orgs/idorg']) {
      for (const id of bad) {
        const expected = id === '%F0' ? 400 : 404
        t.equal((await call('alice', 'GET', `${home}/labels/${id}`)).status, expected, `GET ${id}`)
        t.equal((await call('alice', 'PATCH', `${home}/labels/${id}`, {})).status, expected, `PATCH ${id}`)
        const deleted = expected === 404 ? 204 : expected
        t.equal((await call('alice', 'DELETE', `${home}/labels/${id}`)).status, deleted, `DELETE ${id}`)
      }
    }
    t.equal(await position(), before)
  },
)

t.test('an invalid label is refused with the name of the field and leaves no event', async (t) => {
  await repository('bad')
  await organization('badorg')
  const good = await alice.repos.issueCreateLabel('alice', 'bad', { name: 'good', color: '#123456' })
  const wide = await alice.orgs.orgCreateLabel('badorg', { name: 'good', color: '#123456' })
  const before = await position()
  const bad = [
    ['name', { name: '' }],
    ['name', { name: '   ' }],
    ['name', { name: 5 }],
    ['name', { name: 'x'.repeat(256) }],
    ['name', { name: 'a\nb' }],
    ['color', { color: '' }],
    ['color', { color: 'red' }],
    ['color', { color: '#12345g' }],
    ['color', { color: 255 }],
    ['description', { description: 'x'.repeat(256) }],
    ['exclusive', { exclusive: 'yes' }],
    ['is_archived', { is_archived: 1 }],
  ] as const
  for (const [home, id] of [
    ['/repos/alice/bad', good.data.id],
    ['/orgs/badorg', wide.data.id],
  ] as const) {
    for (const [field, part] of bad) {
      const name = JSON.stringify(part).slice(0, 40)
      const made = await call('alice', 'POST', `${home}/labels`, { name: 'x', color: '#fff', ...part })
      t.match(made, { status: 422, body: { message: new RegExp(`^${field}`) } }, `POST ${name}`)
      const edited = await call('alice', 'PATCH', `${home}/labels/${id}`, part)
      t.match(edited, { status: 422, body: { message: new RegExp(`^${field}`) } }, `PATCH ${name}`)
    }
    for (const body of [{}, { name: 'x' }, { color: '#fff' }, [], 'x', null]) {
      const { status } = await call('alice', 'POST', `${home}/labels`, body)
      t.equal(status, 422, JSON.stringify(body))
    }
  }
  t.equal(await position(), before)
})

t.test('a label with invalid Unicode does not stop the server', async (t) => {
  await repository('odd')
  const made = await server.fetch('alice', '/api/v1/repos/alice/odd/labels', {
    method: 'POST',
    body: '{"name": "x\\ud800", "color": "#fff"}',
  })
  t.ok(made.status === 201 || made.status === 422, `${made.status}`)
  await alice.repos.issueCreateLabel('alice', 'odd', { name: 'after', color: '#fff' })
  t.match((await alice.repos.issueListLabels('alice', 'odd')).data, [{ name: 'after' }])
})

t.test('a retried request makes one label', async (t) => {
  await repository('retry')
  const post = (name: string) =>
    call('alice', 'POST', '/repos/alice/retry/labels', { name, color: '#fff' }, { 'idempotency-key': 'k' })
  const first = await post('a')
  t.equal(first.status, 201)
  t.same(await post('a'), first)
  t.equal((await post('b')).status, 422)
  t.equal((await alice.repos.issueListLabels('alice', 'retry')).data.length, 1)
})

t.test(
  'issues.create.5: labels are resolved among those of the repository and its organization',
  async (t) => {
    await organization('team')
    await organization('rival')
    await alice.orgs.createOrgRepo('team', { name: 'app' })
    await repository('home')
    const color = '#fff'
    const ids = await Promise.all([
      alice.repos.issueCreateLabel('team', 'app', { name: 'own', color }),
      alice.orgs.orgCreateLabel('team', { name: 'shared', color }),
      alice.orgs.orgCreateLabel('rival', { name: 'foreign', color }),
      alice.repos.issueCreateLabel('alice', 'home', { name: 'home', color }),
    ]).then((made) => made.map(({ data }) => data.id ?? 0))
    const [own = 0, shared = 0, , home = 0] = ids
    const asked = [shared, 999_999, ...ids, -1, 0.5]
    const resolved = async (key: string) => {
      const repository = await services.views.repositories.findOne({ key })
      if (repository === undefined) throw new Error(`no repository ${key}`)
      return (await labelsByIds(services, repository, asked)).map(({ id }) => id)
    }
    t.same(await resolved('team/app'), [shared, own])
    t.same(await resolved('alice/home'), [home])
    await alice.orgs.orgDeleteLabel('team', shared)
    t.same(await resolved('team/app'), [own])
  },
)

t.test(
  'labels of repositories need the issue scope, labels of organizations the organization scope',
  async (t) => {
    await repository('scoped')
    await organization('scopedorg')
    const sha1 = async (scope: string) => {
      const { body } = await call('alice', 'POST', '/users/alice/tokens', { name: scope, scopes: [scope] })
      return String(body.sha1)
    }
    const status = async (token: string, path: string) => {
      const answer = await fetch(`${server.url}/api/v1${path}`, {
        headers: { authorization: `token ${token}` },
      })
      return answer.status
    }
    const issue = await sha1('read:issue')
    const org = await sha1('read:organization')
    t.equal(await status(issue, '/repos/alice/scoped/labels'), 200)
    t.equal(await status(org, '/repos/alice/scoped/labels'), 403)
    t.equal(await status(issue, '/orgs/scopedorg/labels'), 403)
    t.equal(await status(org, '/orgs/scopedorg/labels'), 200)
  },
)
