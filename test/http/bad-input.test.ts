import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { workTree } from '../git-client.ts'
import { basic } from '../server-template.ts'
import { startTestServer } from '../start-server.ts'
import { readDocumentation } from './documented.ts'
import { HOSTILE, VALUES } from './hostile-values.ts'

const server = await startTestServer(t, { MAX_BODY_BYTES: '2KiB', LOG_LEVEL: 'silent' })
const alice = await server.as('alice')
await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
await work.git('checkout', '-q', '-b', 'topic')
await work.commit('Something to merge', { 'a.txt': 'a' })
await work.git('push', '-q', 'origin', 'topic')
await alice.repos.repoCreatePullRequest('alice', 'app', { head: 'topic', base: 'main', title: 'Draft' })

const send = (method: string, path: string, body?: string, headers: Record<string, string> = {}) =>
  server.fetch('alice', path, { method, headers, ...(body === undefined ? {} : { body }) })
const post = (path: string, body: string, headers: Record<string, string> = {}) =>
  send('POST', `/api/v1${path}`, body, headers)

t.test('malformed JSON gives 400, and another media type 415', async (t) => {
  for (const body of ['{', '{"name":}', 'name=x', '{"name":"x"} x', '{"__proto__":{"a":1},"name":"x"}']) {
    const answer = await post('/user/repos', body)
    t.equal(answer.status, 400, body)
    t.match(await answer.json(), { message: /./, url: `${server.url}/api/docs` })
  }
  t.equal((await post('/user/repos', '')).status, 422, 'an empty body is none')
  for (const type of ['application/yaml', 'text/plain', 'application/x-www-form-urlencoded']) {
    const answer = await post('/user/repos', '{"name":"x"}', { 'content-type': type })
    t.equal(answer.status, 415, type)
    t.match(
      await answer.json(),
      { message: 'send Content-Type: application/json' },
      'JSON with another content type',
    )
  }
})

t.test('a wrong type gives 422 and names the field', async (t) => {
  const cases: [string, object | null | number | string, string][] = [
    ['/user/repos', {}, 'name'],
    ['/user/repos', { name: 1 }, 'name'],
    ['/user/repos', { name: ['x'] }, 'name'],
    ['/user/repos', { name: 'x', private: 'yes' }, 'private'],
    ['/user/repos', { name: 'x', auto_init: 1 }, 'auto_init'],
    ['/user/repos', [], 'body'],
    ['/user/repos', null, 'body'],
    ['/user/repos', { name: null }, 'name'],
    ['/user/repos', 7, 'body'],
    ['/repos/alice/app/pulls', { head: 1, base: 'main' }, 'head'],
    ['/repos/alice/app/pulls', { head: 'x' }, 'base'],
    ['/repos/alice/app/pulls', { head: 'x', base: 'main', title: {} }, 'title'],
  ]
  for (const [path, body, field] of cases) {
    const answer = await post(path, JSON.stringify(body))
    t.equal(answer.status, 422, `${path} ${JSON.stringify(body)}`)
    const { message, errors } = JSON.parse(await answer.text())
    t.match(message, new RegExp(`^${field}: `))
    t.match(errors, [new RegExp(`^${field}: `)])
  }
})

t.test('labels by name, and a missing title: the message says what to send', async (t) => {
  const errorsOf = async (path: string, body: object) =>
    JSON.parse(await (await post(path, JSON.stringify(body))).text()).errors
  const problem = 'labels: must be label ids, not names'
  t.strictSame(await errorsOf('/repos/alice/app/issues', { title: 'T', labels: ['bug'] }), [problem])
  const pull = { head: 'topic', base: 'main', title: 'T', labels: [1, 'bug'] }
  t.strictSame(await errorsOf('/repos/alice/app/pulls', pull), [problem])
  t.strictSame(await errorsOf('/repos/alice/app/issues', {}), ['title: is missing'])
  t.strictSame(await errorsOf('/repos/alice/app/issues', { title: null }), ['title: is missing'])
  const names = await send('POST', '/api/v1/repos/alice/app/issues/1/labels', '{"labels":["nothing"]}')
  t.equal(names.status, 200, 'names are accepted where Gitea accepts them')
})

t.test(
  'api.fields.3: no body field is silently ignored: unknown fields get 422, unless their value is empty',
  async (t) => {
    const answer = await post('/repos/alice/app/issues', JSON.stringify({ titel: 'T', title: 'T' }))
    t.equal(answer.status, 422)
    t.match(await answer.json(), {
      code: 'invalid_fields',
      errors: [/^titel: is not known here; the fields are .*title/],
    })
    const many = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`field${i}`, 1]))
    const refused = await post('/repos/alice/app/issues', JSON.stringify(many))
    t.match(await refused.json(), { errors: { length: 5 } }, 'the first ones are named')
    const nothing = { name: 'lenient', colour: '', nested: {}, list: [], flag: false, count: 0, nil: null }
    t.equal(
      (await post('/user/repos', JSON.stringify(nothing))).status,
      201,
      'fields of later versions that are not set',
    )
  },
)

t.test('a body over the limit gives 413', async (t) => {
  t.equal((await post('/user/repos', JSON.stringify({ name: 'x'.repeat(3000) }))).status, 413)
})

t.test('a method without a route is 405 with Allow, also TRACE and QUERY', async (t) => {
  const cases: [method: string, path: string, allowed: string][] = [
    ['DELETE', '/api/v1/user/repos', 'GET, HEAD, POST'],
    ['PUT', '/api/v1/user/repos?page=1', 'GET, HEAD, POST'],
    ['POST', '/api/v1/repos/alice/app', 'GET, HEAD, PATCH, DELETE'],
    ['POST', '/api/v1/repos/nobody/nothing', 'GET, HEAD, PATCH, DELETE'],
    ['GET', '/api/v1/admin/rebuild', 'POST'],
    ['PATCH', '/api/v1/user/', 'GET, HEAD'],
    ['QUERY', '/api/v1/user', 'GET, HEAD'],
    ['PROPFIND', '/healthz', 'GET, HEAD'],
    ['OPTIONS', '/api/v1/user', 'GET, HEAD'],
  ]
  for (const [method, path, allowed] of cases) {
    const answer = await send(method, path, method === 'QUERY' ? '{}' : undefined)
    t.equal(answer.status, 405, `${method} ${path}`)
    t.equal(answer.headers.get('allow'), allowed)
    t.match(await answer.json(), { message: `has no ${method}, only ${allowed}` })
  }
  // `fetch` does not send it.
  const traced = await rawStatus('TRACE', '/api/v1/user')
  t.match(traced, /^HTTP\/1.1 405 .*\r\nallow: GET, HEAD\r\n/is)
  for (const path of ['/api/v1/nowhere', '/nowhere'])
    t.equal((await send('DELETE', path)).status, 404, 'where there is no route at all')
})

/** The header of an answer to a request without a body. */
async function rawStatus(method: string, path: string): Promise<string> {
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  socket.end(`${method} ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
  return (await Array.fromAsync(socket)).join('')
}

t.test('a trailing slash reaches the same route', async (t) => {
  t.equal((await send('GET', '/api/v1/user/')).status, 200)
  t.equal((await post('/repos/alice/app/issues/', '{"title":"Slash"}')).status, 201)
  const pull = await send('GET', '/api/v1/repos/alice/app/pulls/1/?x=/')
  t.equal(pull.status, 200)
  t.match(await pull.json(), { number: 1 })
  const names = ['main', 'main/'].map(async (name) =>
    (await send('GET', `/api/v1/repos/alice/app/branches/${name}`)).json(),
  )
  t.match(
    await Promise.all(names),
    [{ name: 'main' }, { name: 'main' }],
    'also where the rest of a path is a name',
  )
  t.equal((await send('GET', '/api/v1/repos/alice/app/contents/a.txt/?ref=topic')).status, 200)
  for (const path of ['/api/v1/repos/alice/app/', '/api/v1/repos/alice/app/issues/1/labels/']) {
    const answer = await send('DELETE', path)
    t.equal(answer.status, 404, 'an empty name does not delete what contains it')
    t.match(await answer.json(), { message: 'must not end with a slash' })
  }
  t.equal((await send('GET', '/api/v1/repos/alice/app')).status, 200)
  t.equal((await send('GET', '/alice/app.git/info/refs/?service=git-upload-pack')).status, 200)
})

t.test('an unknown path gives 404 as JSON', async (t) => {
  const paths = ['/api/nowhere', '/api/v1/nowhere', '/api/v2/user', '/alice/app/nowhere', '/api/v1//user']
  for (const path of paths) {
    const answer = await send('GET', path)
    t.equal(answer.status, 404, path)
    t.match(answer.headers.get('content-type'), /^application\/json/)
    t.match(await answer.json(), { message: /does not exist/ })
  }
})

t.test("X-Request-Id comes back, and is the correlation id of the request's events", async (t) => {
  const id = 'my-request.42'
  const answer = await post('/user/repos', '{"name":"traced"}', { 'x-request-id': id })
  t.equal(answer.headers.get('x-request-id'), id)
  const { id: repoId } = JSON.parse(await answer.text())
  for await (const { metadata } of server.services.events.readStream(`repo-${repoId}`)) {
    t.match(metadata, { correlationId: id, causationId: id, actor: { login: 'alice' } })
  }
  for (const odd of ['', 'a b', 'x'.repeat(129), 'ü']) {
    const given = (await send('GET', '/api/v1/user', undefined, { 'x-request-id': odd })).headers.get(
      'x-request-id',
    )
    t.match(given, /^[0-9a-f-]{36}$/, JSON.stringify(odd))
  }
})

interface Operation {
  parameters?: { name: string; in: string }[]
  requestBody?: { required?: boolean }
  responses: object
}
type Paths = Record<string, Record<string, Operation>>
const openApi = async (): Promise<{ paths: Paths }> =>
  readDocumentation(await (await send('GET', '/api/openapi.json')).text())

t.test('openapi.json is OpenAPI 3 and lists the routes; the documentation page works', async (t) => {
  const document = await openApi()
  const own = JSON.parse(await (await send('GET', '/api/openapi.json')).text())
  t.match(own, { openapi: /^3\./, info: { title: 'Mergelog', version: /./ } })
  for (const [path, methods] of Object.entries(document.paths)) {
    const named = [...path.matchAll(/{([^}]+)}/g)].map(([, name]) => name)
    for (const [method, { parameters = [], responses }] of Object.entries(methods)) {
      const declared = parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name)
      t.strictSame(declared.sort(), named.sort(), `${method} ${path} declares the parameters of its path`)
      t.ok(Object.keys(responses).length > 0)
    }
  }
  const methods = (path: string) => Object.keys(document.paths[`/api/v1${path}`] ?? {}).sort()
  t.strictSame(methods('/repos/{owner}/{repo}'), ['delete', 'get', 'patch'])
  t.strictSame(methods('/repos/{owner}/{repo}/pulls'), ['get', 'post'])
  t.strictSame(methods('/repos/{owner}/{repo}/pulls/{index}/merge'), ['delete', 'get', 'post'])
  t.strictSame(methods('/user/repos'), ['get', 'post'])
  t.equal((await send('GET', '/api/docs')).status, 200)
})

t.test('openapi.json marks request bodies as optional where they are', async (t) => {
  const { paths } = await openApi()
  const isRequired = (method: string, path: string) =>
    paths[`/api/v1${path}`]?.[method]?.requestBody?.required === true
  const repo = '/repos/{owner}/{repo}'
  t.equal(isRequired('post', '/admin/rebuild'), false)
  t.equal(isRequired('put', `${repo}/collaborators/{collaborator}`), false)
  t.equal(isRequired('put', `${repo}/issues/{index}/lock`), false)
  t.equal(isRequired('post', `${repo}/issues`), true)
})

/** By default node sends no length with a DELETE. */
const bodyHeaders = (body?: string) =>
  body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }

/** The status for alice, in a fifth of the time of `fetch`, for thousands of requests. */
function statusFor(agent: Agent, method: string, path: string, body?: string): Promise<number> {
  const url = new URL(path, server.url)
  const headers = { authorization: basic('alice'), ...bodyHeaders(body) }
  return new Promise((resolve, reject) => {
    const asking = request(url, { agent, method, headers }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0))
    })
    asking.on('error', (error) => {
      // The server may close an idle connection just when it is reused.
      if (asking.reusedSocket && 'code' in error && error.code === 'ECONNRESET') {
        statusFor(agent, method, path, body).then(resolve, reject)
      } else reject(error)
    })
    asking.end(body)
  })
}

t.test('openapi.json names the errors that each route may answer with', async (t) => {
  const { paths } = await openApi()
  const statuses = (method: string, path: string) => Object.keys(paths[path]?.[method]?.responses ?? {})
  const missing = (wanted: string[], found: string[]) => wanted.filter((status) => !found.includes(status))
  const pulls = '/api/v1/repos/{owner}/{repo}/pulls/{index}'
  t.strictSame(statuses('get', '/api/v1/user'), ['200', '400', '401', '403', '408', '429', '431', '503'])
  t.strictSame(statuses('get', pulls), [
    '200',
    '307',
    '400',
    '401',
    '403',
    '404',
    '408',
    '410',
    '422',
    '429',
    '431',
    '503',
  ])
  t.strictSame(missing(['201', '409', '412', '413', '415', '422'], statuses('patch', pulls)), [])
  t.strictSame(missing(['200', '201', '405', '409'], statuses('post', `${pulls}/merge`)), [])
  t.strictSame(missing(['200', '206', '304', '412', '416'], statuses('get', '/attachments/{uuid}')), [])
  t.strictSame(statuses('get', '/healthz'), ['200', '400', '408', '429', '431', '503'])
  const own = paths['/sdk/upgrade/v1beta1/current_plan']?.get?.responses
  t.strictSame(Object.keys(own ?? {}), ['200', 'default'], 'the Query service has errors of its own')
})

/** The names in a schema's `properties`, also in its parts. */
function namesIn(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return []
  const own = 'properties' in schema ? Object.keys(schema.properties ?? {}) : []
  return [...own, ...Object.values(schema).flatMap(namesIn)]
}

t.test('no hostile path, query or field gives a 5xx, on any route', async (t) => {
  const failures: string[] = []
  let asked = 0
  const agent = new Agent({ keepAlive: true, maxSockets: 32 })
  t.teardown(() => agent.destroy())
  const ask = async (method: string, path: string, body?: string) => {
    asked += 1
    const status = await statusFor(agent, method, path, body)
    // 501 is correct for upgrade routes: gateways of chains answer it for an unknown method.
    if (status >= 500 && status !== 501) failures.push(`${method} ${path} ${body ?? ''}: ${status}`)
  }
  const { paths } = await openApi()
  const git: Paths = {
    '/{owner}/{repo}/info/refs': { get: { parameters: [{ name: 'service', in: 'query' }], responses: {} } },
    '/{owner}/{repo}/git-upload-pack': { post: { responses: {} } },
  }
  const routes = [...Object.entries(paths), ...Object.entries(git)]
    .filter(([path]) => path !== '/healthz')
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { parameters = [], requestBody }]) => ({
        path,
        method: method.toUpperCase(),
        queries: parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name),
        fields: [...new Set(namesIn(requestBody))],
      })),
    )
  t.ok(routes.length > 25, `${routes.length} routes`)
  const known: Record<string, string> = {
    owner: 'alice',
    repo: 'app',
    index: '1',
    org: 'acme',
    username: 'alice',
    id: '1',
    sha: '1'.repeat(40),
    ref: 'main',
    diffType: 'diff',
  }
  /**
   * The same code reads the names and the fields of most routes. So each name and each field of a route gets some of
   * the values, and all routes together get all of them. `test/http/fuzz.test.ts` sends others.
   */
  const PARTS = 30
  let turn = 0
  const some = <T>(values: readonly T[]): T[] => {
    turn += 1
    return values.filter((_, i) => i % PARTS === turn % PARTS)
  }
  for (const { path, method, queries, fields } of routes) {
    const names = [...path.matchAll(/{([^}]+)}/g)].map(([, name = '']) => name)
    const filled = (odd: string, hostile: string) =>
      path.replace(/{([^}]+)}/g, (_, name: string) => (name === odd ? hostile : (known[name] ?? 'x')))
    const body = method === 'GET' || method === 'DELETE' ? undefined : '{}'
    // Don't delete the repository: the other requests need it.
    const destroys = method === 'DELETE' && path.endsWith('{repo}')
    await Promise.all(
      names.flatMap((name) => some(HOSTILE).map((hostile) => ask(method, filled(name, hostile), body))),
    )
    if (method === 'GET') {
      const odd = [...queries, '__proto__'].flatMap((key) =>
        some(HOSTILE).map((hostile) => `${key}=${hostile}&${key}=1`),
      )
      await Promise.all(odd.map((query) => ask(method, `${filled('', '')}?${query}`)))
    } else if (!destroys) {
      const bodies = fields.flatMap((field) =>
        some(VALUES).map((value) => ({ head: 'x', base: 'main', title: 'T', username: 'x', [field]: value })),
      )
      // Don't rename the repository: the other requests need it.
      const harmless = bodies.filter((body) => method !== 'PATCH' || !Object.hasOwn(body, 'name'))
      await Promise.all(harmless.map((odd) => ask(method, filled('', ''), JSON.stringify(odd))))
    }
  }
  for (const service of ['git-upload-pack', 'git-receive-pack']) {
    const type = { 'content-type': `application/x-${service}-request` }
    for (const body of [
      '',
      '0000',
      '0004',
      'ffff',
      'zzzz',
      '0000PACK',
      '0032want -',
      '\u0000'.repeat(1000),
    ]) {
      const answer = await send('POST', `/alice/app/${service}`, body, type)
      if (answer.status >= 500) failures.push(`${service} ${JSON.stringify(body)}: ${answer.status}`)
    }
    t.equal(
      (await send('POST', `/alice/app/${service}`, '0000', { 'content-type': 'text/plain' })).status,
      415,
    )
    await ask('POST', `/alice/app/${service}`)
  }
  t.strictSame(failures.slice(0, 20), [], `${failures.length} of ${asked} requests`)
  t.equal((await send('GET', '/healthz')).status, 200)
  t.equal((await send('GET', '/api/v1/repos/alice/app')).status, 200)
})
