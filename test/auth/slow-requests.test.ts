/** Permissions are checked when the request is complete, even if the client delays its body. */
import { once } from 'node:events'
import { request } from 'node:http'
import t from 'tap'
import { basic } from '../server-template.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'

const server = await startTestServer(t)
const { services } = server

async function must(login: string, method: string, path: string, body?: object): Promise<void> {
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  const answer = await server.fetch(login, `/api/v1${path}`, init)
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
}

/** Counts the account look-ups of sign-ins. */
let signIns = 0
const { findOne } = services.views.accounts
services.views.accounts.findOne = async (filter) => {
  const found = await findOne(filter)
  signIns += 1
  return found
}

interface Held {
  method: string
  path: string
  body: string
  type?: string
}

/** Sends a request up to its last byte, runs `meanwhile`, and sends the rest. Resolves to the status. */
async function around(
  login: string,
  { method, path, body, type = 'application/json' }: Held,
  meanwhile: () => Promise<unknown>,
): Promise<number> {
  const before = signIns
  const headers = { authorization: basic(login), 'content-type': type, 'content-length': body.length }
  const sent = request(`${server.url}/api/v1${path}`, { method, headers })
  const answered = once(sent, 'response')
  sent.write(body.slice(0, -1))
  await until('the request is signed in', async () => signIns > before)
  await meanwhile()
  sent.end(body.slice(-1))
  const [answer] = await answered
  answer.resume()
  return answer.statusCode
}

const editOf = (login: string, admin: boolean) => ({ source_id: 0, login_name: login, admin })
const setAdmin = (login: string, admin: boolean) =>
  must('admin', 'PATCH', `/admin/users/${login}`, editOf(login, admin))

t.test('a site admin who is demoted during a request cannot make an admin with it', async (t) => {
  await setAdmin('bob', true)
  const held = { method: 'PATCH', path: '/admin/users/bob', body: JSON.stringify(editOf('bob', true)) }
  t.equal(await around('bob', held, async () => undefined), 200, 'as long as nothing changes')
  t.equal(await around('bob', held, () => setAdmin('bob', false)), 403)
  t.equal((await server.fetch('bob', '/api/v1/admin/users')).status, 403)
})

t.test('a user who leaves an organization during a request cannot change it with that request', async (t) => {
  await must('alice', 'POST', '/orgs', { username: 'acme' })
  await must('alice', 'POST', '/orgs/acme/repos', { name: 'app', private: true, auto_init: true })
  await must('alice', 'POST', '/repos/acme/app/issues', { title: 'First' })
  const join = () => must('alice', 'PUT', '/orgs/acme/members/carol', { permission: 'write' })
  const leave = () => must('alice', 'DELETE', '/orgs/acme/members/carol')
  await join()
  await must('carol', 'POST', '/repos/acme/app/releases', { tag_name: 'v1' })
  const form = [
    '--xx',
    'Content-Disposition: form-data; name="attachment"; filename="f.txt"',
    'Content-Type: text/plain',
    '',
    'text',
    '--xx--',
  ].join('\r\n')
  const type = 'multipart/form-data; boundary=xx'
  const capitals = 'Multipart/FORM-DATA; boundary=xx'
  const base = '/repos/acme/app'
  const requests: Record<string, Held> = {
    'an issue': { method: 'POST', path: `${base}/issues`, body: '{"title":"Second"}' },
    'a commit': { method: 'POST', path: `${base}/contents/a`, body: '{"content":"eA==","message":"a"}' },
    'a file of an issue': { method: 'POST', path: `${base}/issues/1/assets`, body: form, type },
    'a form in capitals': { method: 'POST', path: `${base}/issues/1/assets`, body: form, type: capitals },
    'a file of a release': { method: 'POST', path: `${base}/releases/1/assets`, body: form, type },
  }
  for (const [what, held] of Object.entries(requests)) {
    t.equal(await around('carol', held, leave), 404, what)
    await join()
    t.equal(await around('carol', held, async () => undefined), 201, `${what}, as a member`)
  }
})
