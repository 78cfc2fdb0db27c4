/** Compressed bodies, for every route with a body: complete ones are read, and all others are refused immediately. */
import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { ROWS, statusesIn } from '../auth/route-rows.ts'
import { type Call, ROLES, type Route, routesOf, startWorld } from '../auth/route-world.ts'
import { startTestServer } from '../start-server.ts'

const server = await startTestServer(t, {
  MAX_BODY_BYTES: '1MiB',
  MAX_FILE_BODY_BYTES: '2MiB',
  ATTACHMENT_MAX_BYTES: '1000000',
})
const world = await startWorld(t, server)
const place = await world.place('public')
const roles = Object.values(ROLES)
const routes = routesOf(world.app).filter(({ method }) => method !== 'GET')

/** Timeout of a request, in milliseconds. */
const NEVER_MS = 120_000

async function send(login: string | null, { method, url }: Route, call: Call, body: Buffer) {
  const path: Call['path'] = { owner: place.owner, repo: place.repo, ...call.path }
  const at = url.replaceAll(/:([a-zA-Z_]+)|\*/g, (_, name = '*') => encodeURI(`${path[name] ?? 'x'}`))
  const query = call.query === undefined ? '' : `?${new URLSearchParams(call.query)}`
  const answer = await server.fetch(login, `${at}${query}`, {
    method,
    body,
    headers: { 'content-type': 'application/json', ...call.headers, 'content-encoding': 'gzip' },
    redirect: 'manual',
    signal: AbortSignal.timeout(NEVER_MS),
  })
  await answer.arrayBuffer()
  return answer.status
}

/** Upload routes check permissions first, and read the body themselves. */
const isUpload = ({ method, url }: Route) => method === 'POST' && url.endsWith('/assets')
const isJson = (route: Route) => route.url.startsWith('/api/v1/') && !isUpload(route)

t.test('every route of the API reads a body in gzip as if it came unpacked', async (t) => {
  for (const route of routes) {
    const row = ROWS[route.name]
    if (row === undefined) continue
    const [statuses = []] = statusesIn(row.who)
    const expected = statuses.find((status) => status < 300)
    const call = (await row.call?.(place, world)) ?? {}
    if (expected === undefined || call.body === undefined || !isJson(route)) continue
    const login = roles[statuses.indexOf(expected)] ?? null
    const status = await send(login, route, call, gzipSync(JSON.stringify(call.body)))
    t.equal(status, expected, route.name)
  }
})

t.test('a form with files in gzip is refused; a file that is sent without a form is unpacked', async (t) => {
  for (const route of routes.filter(isUpload)) {
    const call = (await ROWS[route.name]?.call?.(place, world)) ?? {}
    t.equal(await send('alice', route, call, gzipSync(`${call.body}`)), 415, route.name)
  }
  const assets = routes.find(({ url }) => url.endsWith('/releases/:id/assets'))
  if (assets === undefined) throw new Error('there is no such route')
  const file = (body: Buffer) =>
    send(
      'alice',
      assets,
      {
        path: { id: place.release.id },
        query: { name: 'file.txt' },
        headers: { 'content-type': 'application/octet-stream' },
      },
      body,
    )
  t.equal(await file(gzipSync('contents')), 201)
  const release = await server.services.views.releases.get(`${place.release.id}`)
  t.match(
    release?.assets.find(({ name }) => name === 'file.txt'),
    { size: 8 },
  )
  t.equal(await file(Buffer.from('contents')), 400)
  t.equal(await file(randomBytes(500_000)), 400)
  t.equal(await file(gzipSync(Buffer.alloc(2_000_000))), 413)
})

/** Refused bodies, with the status of all API routes. */
const REFUSED = {
  'a body that is no gzip': { body: Buffer.from('{"no":"gzip"}'), status: 400 },
  'a long body that is no gzip': { body: randomBytes(150_000), status: 400 },
  'gzip that ends early': { body: gzipSync(`{"a":"${'x'.repeat(100)}"}`).subarray(0, -9), status: 400 },
  'gzip that is damaged later on': {
    body: Buffer.concat([gzipSync(randomBytes(150_000)).subarray(0, 100_000), Buffer.alloc(100_000)]),
    status: 400,
  },
  'gzip that unfolds to more than a body may have': {
    body: gzipSync(`{"content":"${'A'.repeat(4 * 1024 * 1024)}"}`),
    status: 413,
  },
}

t.test('every route refuses such bodies, also from anonymous clients', async (t) => {
  const kinds = Object.entries(REFUSED)
  for (const [i, route] of routes.entries()) {
    // The same code reads all of them: two for each route, and all routes together get all.
    for (const [what, { body, status: expected }] of kinds.filter((_, n) => (n + i) % kinds.length < 2)) {
      const status = await send(null, route, {}, body)
      const isExpected = isJson(route) ? status === expected : status >= 300 && status < 500
      t.ok(isExpected, `${route.name}, ${what}: ${status}`)
    }
  }
})
