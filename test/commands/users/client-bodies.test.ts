/** Bodies of third-party clients: Terraform's provider, py-gitea. */
import t from 'tap'
import { startTestServer } from '../../start-server.ts'

const server = await startTestServer(t)

async function call(login: string, method: string, path: string, body?: object) {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
  const answer = await server.fetch(login, `/api/v1${path}`, init)
  const text = await answer.text()
  return { status: answer.status, json: text === '' ? null : JSON.parse(text) }
}

const NEW_USER = {
  username: 'terra',
  email: 'terra@example.org',
  password: 'a long password',
  full_name: '',
  login_name: 'terra',
  must_change_password: false,
  send_notify: true,
  source_id: 0,
  visibility: 'public',
}

t.test('login_name, source_id and send_notify of a new user are accepted as clients send them', async (t) => {
  t.equal((await call('admin', 'POST', '/admin/users', NEW_USER)).status, 201)
  const other = { ...NEW_USER, username: 'forma', email: 'forma@example.org' }
  const unset = { login_name: '', source_id: null, send_notify: false, created_at: null }
  t.equal((await call('admin', 'POST', '/admin/users', { ...other, ...unset })).status, 201)
})

t.test('no field of a new user is silently ignored: other values are 422 by name', async (t) => {
  const other = { ...NEW_USER, username: 'other', email: 'other@example.org', login_name: '' }
  const before = await server.services.events.lastPosition()
  const bad = {
    created_at: '2020-01-01T00:00:00Z',
    login_name: 'ldap-name',
    source_id: 3,
    restricted: true,
    visibility: 'private',
  }
  for (const [field, value] of Object.entries(bad)) {
    const { status, json } = await call('admin', 'POST', '/admin/users', { ...other, [field]: value })
    t.equal(status, 422, field)
    t.match(json.errors, [new RegExp(`^${field}: `)])
  }
  t.same(await server.services.events.lastPosition(), before)
})

t.test("PATCH /admin/users/{u} takes what Terraform's defaults send", async (t) => {
  const wanted = {
    active: true,
    admin: false,
    allow_create_organization: true,
    allow_git_hook: true,
    allow_import_local: true,
    description: '',
    email: 'terra@example.org',
    full_name: 'Terra',
    location: '',
    login_name: 'terra',
    max_repo_creation: -1,
    must_change_password: false,
    prohibit_login: false,
    restricted: false,
    source_id: 0,
    visibility: 'public',
    website: '',
  }
  const { status, json } = await call('admin', 'PATCH', '/admin/users/terra', wanted)
  t.equal(status, 200)
  t.match(json, { full_name: 'Terra', active: true, is_admin: false })
  for (const bad of [{ max_repo_creation: 5 }, { restricted: true }, { allow_create_organization: false }]) {
    const refused = await call('admin', 'PATCH', '/admin/users/terra', { ...wanted, ...bad, full_name: 'X' })
    t.equal(refused.status, 422, JSON.stringify(bad))
    t.match(refused.json.errors, [new RegExp(`^${Object.keys(bad)[0]}: `)])
  }
  t.equal((await call('admin', 'GET', '/users/terra')).json.full_name, 'Terra')
})

t.test('units_map with none (py-gitea): those parts of repositories are not of the team', async (t) => {
  await call('alice', 'POST', '/orgs', { username: 'acme' })
  const create = (name: string, units_map: object) =>
    call('alice', 'POST', '/orgs/acme/teams', { name, permission: 'read', units: [], units_map })
  const own = { 'repo.code': 'write', 'repo.issues': 'write', 'repo.pulls': 'write' }
  const nothing = { 'repo.ext_issues': 'none', 'repo.wiki': 'none', 'repo.ext_wiki': 'none' }
  const { status, json } = await create('makers', { ...own, ...nothing, 'repo.releases': 'write' })
  t.equal(status, 201)
  t.match(json, { permission: 'write', units: ['repo.code', 'repo.issues', 'repo.pulls', 'repo.releases'] })
  t.notOk('repo.wiki' in json.units_map)

  const refused = await create('halves', { ...own, 'repo.issues': 'none' })
  t.equal(refused.status, 422)
  t.match(refused.json.errors, [/^units: .*repo\.issues is missing/])
  t.equal((await create('unknown', { ...own, 'repo.unknown': 'none' })).status, 422)
  const edited = await call('alice', 'PATCH', `/teams/${json.id}`, {
    name: 'makers',
    units_map: { 'repo.code': 'read', 'repo.issues': 'read', 'repo.pulls': 'read', 'repo.wiki': 'none' },
  })
  t.match(edited, {
    status: 200,
    json: { permission: 'read', units: ['repo.code', 'repo.issues', 'repo.pulls'] },
  })
})
