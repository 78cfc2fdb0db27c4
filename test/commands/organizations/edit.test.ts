import t from 'tap'
import { organizationStream } from '../../../src/events/streams.ts'
import { startTestServer } from '../../start-server.ts'
import { eventsIn } from '../pull-requests/pull-repository.ts'

const server = await startTestServer(t)

async function call(login: string | null, method: string, path: string, body?: object) {
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  const answer = await server.fetch(login, `/api/v1${path}`, init)
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
}

t.test('PATCH /orgs/{org} changes an organization, as in Gitea', async (t) => {
  const made = await call('alice', 'POST', '/orgs', { username: 'Acme', full_name: 'Acme Inc.' })
  await call('alice', 'PUT', '/orgs/acme/members/bob', { permission: 'write' })
  const before = await server.services.events.lastPosition()
  const edit = (login: string | null, body: object, org = 'acme') =>
    call(login, 'PATCH', `/orgs/${org}`, body)
  for (const [login, body, status] of [
    [null, { full_name: 'x' }, 401],
    ['bob', { full_name: 'x' }, 403],
    ['carol', { full_name: 'x' }, 403],
    ['alice', { visibility: 'secret' }, 422],
    ['alice', { full_name: 'New', email: 'x' }, 422],
    ['alice', { full_name: 'New', website: 'javascript:1' }, 422],
    ['alice', { full_name: 'New', location: 'a\nb' }, 422],
    ['alice', { full_name: 'x'.repeat(101) }, 422],
    ['alice', { full_name: 'New', repo_admin_change_team_access: true }, 422],
    ['alice', { full_name: 'Acme Inc.', visibility: null, description: null }, 200],
    ['alice', {}, 200],
  ] as const) {
    t.equal((await edit(login, body)).status, status, `${login}: ${JSON.stringify(body).slice(0, 60)}`)
  }
  t.equal((await edit('alice', {}, 'nobody')).status, 404)
  t.equal((await edit('alice', {}, 'alice')).status, 404, 'a user is not an organization')
  t.equal(
    await server.services.events.lastPosition(),
    before,
    'what is refused, or the same, leaves no event',
  )

  const wanted = {
    full_name: 'Acme Ltd.',
    description: 'Anvils',
    email: 'info@acme.example.org',
    location: 'Here',
    website: 'https://acme.example.org',
    visibility: 'private',
  }
  const edited = await edit('alice', { ...wanted, repo_admin_change_team_access: false })
  t.match(edited, { status: 200, body: { ...wanted, name: 'Acme' } })
  t.match((await eventsIn(server, organizationStream(made.body.id))).at(-1), {
    type: 'OrganizationEdited',
    data: { changes: { fullName: 'Acme Ltd.', visibility: 'private' } },
    metadata: { actor: { login: 'alice' } },
  })
  t.same((await call('alice', 'GET', '/orgs/acme')).body, edited.body)
  t.equal((await call('bob', 'GET', '/orgs/acme')).status, 200, 'its members stay')
  t.equal((await call('carol', 'GET', '/orgs/acme')).status, 404, 'it is private now')
  t.equal((await edit('carol', {})).status, 404)
  const cleared = await edit('alice', { email: '', website: '' })
  t.match(cleared.body, { email: '', website: '', description: 'Anvils' })
})
