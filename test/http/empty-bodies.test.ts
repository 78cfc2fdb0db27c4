/** Bodies that clients, such as those based on axios, send with requests that need no body. */
import t from 'tap'
import { startTestServer } from '../start-server.ts'

const server = await startTestServer(t)
const alice = await server.as('alice')
await alice.user.createCurrentUserRepo({ name: 'app' })
const TYPES = [
  'application/x-www-form-urlencoded',
  'application/octet-stream',
  'text/plain',
  'multipart/form-data',
]

t.test('an empty body has no content type', async (t) => {
  const path = '/api/v1/repos/alice/app'
  const requests: [method: string, path: string, status: number][] = [
    ['PUT', `${path}/topics/axios`, 204],
    ['PUT', '/api/v1/notifications', 205],
    ['PUT', `${path}/collaborators/bob`, 204],
    ['PUT', `${path}/subscription`, 200],
    ['POST', `${path}/issues`, 422],
  ]
  await server.as('bob')
  for (const type of TYPES) {
    for (const [method, url, status] of requests) {
      const headers = { 'content-type': type }
      const empty = await server.fetch('alice', url, { method, headers, body: '' })
      t.equal(empty.status, status, `${method} ${url} ${type}`)
      const chunked = { method, headers, body: new Blob([]).stream(), duplex: 'half' } as const
      t.equal(
        (await server.fetch('alice', url, chunked)).status,
        status,
        `${method} ${url} ${type}, in chunks`,
      )
    }
    const headers = { 'content-type': type }
    const full = await server.fetch('alice', `${path}/topics/axios`, { method: 'PUT', headers, body: 'a=b' })
    t.equal(full.status, 415, `a body of ${type} is refused`)
    t.match(await full.json(), { message: 'send Content-Type: application/json' })
  }
})

t.test('empty names are absent: "assignees": [""], as tea sends it, is no assignee', async (t) => {
  const path = '/api/v1/repos/alice/app/issues'
  const body = { title: 'One', assignees: [''], assignee: '', labels: null, milestone: null }
  const answer = await server.fetch('alice', path, { method: 'POST', body: JSON.stringify(body) })
  t.equal(answer.status, 201)
  t.match(await answer.json(), { assignees: null, assignee: null })
  const edit = { method: 'PATCH', body: JSON.stringify({ assignees: ['', 'alice', ''] }) }
  t.match(await (await server.fetch('alice', `${path}/1`, edit)).json(), { assignees: [{ login: 'alice' }] })
})
