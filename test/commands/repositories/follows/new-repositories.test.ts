/** The creator of a repository watches it. */
import t from 'tap'
import { startTestServer, type TestServer } from '../../../start-server.ts'

const asked = (server: TestServer) =>
  async function call(login: string, method: string, path: string, body?: object) {
    const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
    const answer = await server.fetch(login, `/api/v1${path}`, init)
    const text = await answer.text()
    return { status: answer.status, json: text === '' ? null : JSON.parse(text) }
  }

t.test('the creator of a repository watches it, and is told of new issues', async (t) => {
  const server = await startTestServer(t, { AUTO_WATCH_NEW_REPOS: 'on' })
  const call = asked(server)
  const watchers = async (repo: string) =>
    (await call('alice', 'GET', `/repos/${repo}/subscribers`)).json.map(
      ({ login }: { login: string }) => login,
    )
  const create = (path: string, body: object, login = 'alice') => call(login, 'POST', path, body)

  const made = await create('/user/repos', { name: 'own', auto_init: true, template: true })
  t.equal(made.status, 201)
  t.equal(made.json.watchers_count, 1)
  t.same(await watchers('alice/own'), ['alice'])
  await create('/repos/alice/own/issues', { title: 'One' }, 'bob')
  t.match((await call('alice', 'GET', '/notifications')).json, [{ subject: { title: 'One' } }])

  await create('/orgs', { username: 'acme' })
  await create('/orgs/acme/repos', { name: 'app' })
  t.same(await watchers('acme/app'), ['alice'], 'who creates it for an organization')
  await create('/admin/users/carol/repos', { name: 'given' }, 'admin')
  t.same(await watchers('carol/given'), ['carol'], 'its owner, not the site admin')
  await create('/repos/alice/own/forks', { name: 'fork' }, 'bob')
  t.same(await watchers('bob/fork'), ['bob'])
  await create('/repos/alice/own/generate', { owner: 'alice', name: 'generated', git_content: true })
  t.same(await watchers('alice/generated'), ['alice'])

  await call('alice', 'DELETE', '/repos/alice/own/subscription')
  t.same(await watchers('alice/own'), [], 'it can be ended')
})

t.test('AUTO_WATCH_NEW_REPOS=off: the creator does not watch it', async (t) => {
  const call = asked(await startTestServer(t, { AUTO_WATCH_NEW_REPOS: 'off' }))
  t.equal((await call('alice', 'POST', '/user/repos', { name: 'own' })).json.watchers_count, 0)
  await call('bob', 'POST', '/repos/alice/own/issues', { title: 'One' })
  t.same((await call('alice', 'GET', '/notifications')).json, [])
})
