/** axios, as bots use it: requests without a body, arrays in queries, forms, redirects, HEAD, and errors. */
import axios, { type AxiosRequestConfig, type AxiosResponse } from 'axios'
import t from 'tap'
import { passwordOf, startTestServer } from '../start-server.ts'

const server = await startTestServer(t, { WEBHOOK_ALLOWED_HOSTS: 'loopback' })
const alice = await server.as('alice')
await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true, default_branch: 'main' })
await server.as('bob')

const auth = { username: 'alice', password: passwordOf('alice') }
const client = axios.create({ baseURL: `${server.url}/api/v1`, auth })
const repo = '/repos/alice/app'

/** Sends a request; resolves to the answer whatever its status. */
const ask = (config: AxiosRequestConfig): Promise<AxiosResponse> =>
  client.request({ validateStatus: () => true, ...config })

/** Returns the titles of the listed issues. */
async function titles(config: AxiosRequestConfig): Promise<string[]> {
  const { data } = await client.get(`${repo}/issues`, config)
  return data.map(({ title }: { title: string }) => title).sort()
}

t.test(
  'axios sends PUT, POST, PATCH and DELETE without a body, and its content types are accepted',
  async (t) => {
    await client.post(`${repo}/issues`, { title: 'None' })
    const hook = { type: 'gitea', config: { url: 'http://127.0.0.1:9/', content_type: 'json' } }
    const { data: created } = await client.post(`${repo}/hooks`, hook)
    await client.post('/orgs', { username: 'team' })
    const { data: team } = await client.post('/orgs/team/teams', { name: 'writers', permission: 'write' })
    const requests: [method: string, url: string, status: number][] = [
      ['PUT', `${repo}/topics/axios`, 204],
      ['DELETE', `${repo}/topics/axios`, 204],
      ['PUT', `/teams/${team.id}/members/bob`, 204],
      ['DELETE', `/teams/${team.id}/members/bob`, 204],
      ['PUT', `${repo}/collaborators/bob`, 204],
      ['PUT', `${repo}/subscription`, 200],
      ['PUT', `${repo}/issues/1/lock`, 204],
      ['DELETE', `${repo}/issues/1/lock`, 204],
      ['PUT', '/notifications', 205],
      ['POST', `${repo}/hooks/${created.id}/tests`, 204],
      ['POST', `${repo}/issues`, 422],
      ['PATCH', `${repo}/issues/1`, 422],
    ]
    for (const [method, url, status] of requests) {
      const answer = await ask({ method, url })
      t.equal(answer.status, status, `${method} ${url}`)
      const type = answer.request.getHeader('content-type')
      t.equal(type, method === 'DELETE' ? undefined : 'application/x-www-form-urlencoded')
    }
    const json = { headers: { 'Content-Type': 'application/json' } }
    t.equal((await ask({ ...json, method: 'PUT', url: `${repo}/topics/axios`, data: null })).status, 204)
    t.equal((await ask({ ...json, method: 'DELETE', url: `${repo}/topics/axios`, data: {} })).status, 204)
  },
)

t.test('axios sends a form, which is refused with the expected type', async (t) => {
  const data = new URLSearchParams({ title: 'A form' })
  const answer = await ask({ method: 'POST', url: `${repo}/issues`, data })
  t.equal(answer.status, 415)
  t.match(answer.data, { message: 'send Content-Type: application/json' })
  t.same(await titles({}), ['None'])
})

t.test('axios sends arrays in queries as labels[]=, and each value counts', async (t) => {
  for (const name of ['bug', 'urgent']) {
    const { data } = await client.post(`${repo}/labels`, { name, color: '#ff0000' })
    await client.post(`${repo}/issues`, { title: `Is ${name}`, labels: [data.id] })
  }
  const ways = [{}, { indexes: false }, { indexes: null }, { indexes: true }]
  for (const paramsSerializer of ways) {
    const found = (labels: unknown) => titles({ params: { labels }, paramsSerializer })
    const way = JSON.stringify(paramsSerializer)
    t.same(await found(['bug', 'urgent']), ['Is bug', 'Is urgent'], way)
    t.same(await found(['bug']), ['Is bug'], way)
    t.same(await found('bug,urgent'), ['Is bug', 'Is urgent'], way)
  }
  t.same(await titles({ params: { q: 'labels[]=bug', labels: [] } }), [], 'a value keeps its brackets')
  const params = { 'status-types': ['read', 'nothing'], since: undefined, before: null }
  t.equal((await ask({ url: '/notifications', params })).status, 422, 'a wrong value is not ignored')
  const { headers } = await client.get(`${repo}/issues`, { params: { labels: ['bug', 'urgent'], limit: 1 } })
  t.match(headers.link, /labels=bug&labels=urgent&limit=1&page=2>; rel="next"/, 'links ask for the same')
})

t.test('axios signs in with a password, which wins over a header, or with a token', async (t) => {
  const { data } = await client.post('/users/alice/tokens', { name: 'axios', scopes: ['all'] })
  for (const Authorization of [`token ${data.sha1}`, `Bearer ${data.sha1}`]) {
    const answer = await axios.get(`${server.url}/api/v1/user`, { headers: { Authorization } })
    t.equal(answer.data.login, 'alice')
  }
  t.equal((await client.get('/user', { headers: { Authorization: 'token wrong' } })).data.login, 'alice')
  const wrong = await ask({ url: '/user', auth: { ...auth, password: 'wrong' } })
  t.equal(wrong.status, 401)
  t.match(wrong.data, { message: String })
})

t.test('axios follows the redirects of a repository that has moved, with body and credentials', async (t) => {
  const { data } = await client.post('/user/repos', { name: 'before', private: true })
  await client.patch(`/repos/${data.full_name}`, { name: 'after' })
  const issue = await client.post('/repos/alice/before/issues', { title: 'Moved' })
  t.equal(issue.status, 201)
  t.match(issue.data, { title: 'Moved', repository: { full_name: 'alice/after' } })
  const edited = await client.patch('/repos/alice/before/issues/1', { title: 'Edited' })
  t.match(edited.data, { title: 'Edited' })
  t.equal((await client.put('/repos/alice/before/topics/axios')).status, 204, 'also without a body')
  const stopped = await ask({ url: '/repos/alice/before', maxRedirects: 0 })
  t.equal(stopped.status, 307)
  t.match(stopped.headers.location, /alice\/after$/)
})

t.test('axios asks with HEAD', async (t) => {
  const answer = await client.head(`${repo}/issues`)
  t.equal(answer.data, '')
  t.match(answer.headers, { 'x-total-count': '3', 'content-type': /application\/json/ })
  t.equal((await ask({ method: 'HEAD', url: '/repos/alice/nothing' })).status, 404)
})

t.test('axios rejects with an error that has the status and the invalid fields', async (t) => {
  const error: unknown = await client.post(`${repo}/issues`, { body: 'No title' }).catch((problem) => problem)
  if (!axios.isAxiosError(error)) throw error
  t.match(error, { code: 'ERR_BAD_REQUEST', status: 422 })
  t.match(error.response?.data, { message: 'title: is missing', code: String, errors: ['title: is missing'] })
})
