import t from 'tap'
import { startTestServer } from '../start-server.ts'

const server = await startTestServer(t)
const alice = await server.as('alice')
await alice.user.createCurrentUserRepo({ name: 'app' })
await alice.repos.issueCreateIssue('alice', 'app', { title: 'One' })

let made = 0

/** Returns the status of a request with a token with only these scopes. */
async function statusWith(scopes: string[], path: string, method = 'GET') {
  made += 1
  const body = JSON.stringify({ name: `t${made}`, scopes })
  const answer = await server.fetch('alice', '/api/v1/users/alice/tokens', { method: 'POST', body })
  const { sha1 } = JSON.parse(await answer.text())
  const headers = { authorization: `token ${sha1}` }
  return (await fetch(`${server.url}/api/v1${path}`, { method, headers })).status
}

t.test('`/repos/issues/search` needs `read:issue` alone', async (t) => {
  t.equal(await statusWith(['read:issue'], '/repos/issues/search'), 200)
  t.equal(await statusWith(['read:repository', 'read:user'], '/repos/issues/search'), 403)
})

t.test('`/user/subscriptions` needs `read:user`, like other lists of follows', async (t) => {
  for (const path of [
    '/user/subscriptions',
    '/users/alice/subscriptions',
    '/users/alice/starred',
    '/user/teams',
  ]) {
    t.equal(await statusWith(['read:user'], path), 200, path)
    t.equal(await statusWith(['read:repository', 'read:organization'], path), 403, path)
  }
  t.equal(await statusWith(['read:user'], '/user/starred'), 403)
  t.equal(await statusWith(['read:user', 'read:repository'], '/user/starred'), 200)
})

t.test('`GET /orgs`: any token', async (t) => {
  t.equal(await statusWith(['read:misc'], '/orgs'), 200)
  t.equal(await statusWith(['read:misc'], '/orgs', 'POST'), 403)
})
