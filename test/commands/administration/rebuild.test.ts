import Fastify from 'fastify'
import t, { type Test } from 'tap'
import { rebuildRoutes } from '../../../src/commands/administration/rebuild.ts'
import { registerErrors } from '../../../src/http/answers/errors.ts'
import type { Rebuilder, RebuildProgress } from '../../../src/projections/projector/rebuild.ts'
import { modelsNamed, READ_MODELS } from '../../../src/projections/views/views.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

const PATH = '/api/v1/admin/rebuild'
const NAMES = READ_MODELS.map(({ name }) => name)
const linesOf = (text: string) =>
  text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line))

t.test('a site admin rebuilds read models and sees the progress', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app' })
  await alice.repos.issueCreateIssue('alice', 'app', { title: 'Here' })
  const rebuild = (login: string | null, body?: unknown) =>
    server.fetch(login, PATH, {
      method: 'POST',
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })

  await t.test('other users cannot', async (t) => {
    t.equal((await rebuild(null)).status, 401)
    const refused = await rebuild('alice', { models: ['issues'] })
    t.equal(refused.status, 403)
    t.match(await refused.json(), { message: 'only site admins rebuild read models' })
    t.equal((await rebuild('alice', { models: 7 })).status, 403, 'permissions are checked before the body')
    const body = JSON.stringify({ name: 'reader', scopes: ['read:admin'] })
    const answer = await server.fetch('admin', '/api/v1/users/admin/tokens', { method: 'POST', body })
    const { sha1 } = JSON.parse(await answer.text())
    const headers = { authorization: `token ${sha1}` }
    t.equal((await server.fetch(null, PATH, { method: 'POST', headers })).status, 403, 'nor with any token')
  })

  await t.test('rebuilds only the models in the body', async (t) => {
    const answer = await rebuild('admin', { models: ['issues', 'pulls'] })
    t.equal(answer.status, 200)
    t.match(answer.headers.get('content-type'), /^application\/x-ndjson/)
    const lines = linesOf(await answer.text())
    const done = lines.filter((line) => line.done)
    t.match(done, [{ model: 'pulls' }, { model: 'issues' }])
    const end = await server.services.events.lastPosition()
    for (const line of done) t.match(line, { position: end, end, events: Number })
    t.ok(
      lines.some((line) => line.model === 'issues' && line.done === false),
      'steps on the way',
    )
    t.same(lines.at(-1), { rebuilt: done.map(({ model, events }) => ({ model, events })) }, 'the outcome')
    const { data } = await alice.repos.issueListIssues('alice', 'app')
    t.match(data, [{ title: 'Here' }])
  })

  await t.test('rebuilds all models when the body names none', async (t) => {
    for (const body of [undefined, null, {}, { models: null }, { models: [] }]) {
      const answer = await rebuild('admin', body)
      t.equal(answer.status, 200)
      const { rebuilt } = linesOf(await answer.text()).at(-1)
      t.same(
        rebuilt.map(({ model }: { model: string }) => model),
        NAMES,
        JSON.stringify(body),
      )
    }
  })

  await t.test('an unknown model is refused', async (t) => {
    const answer = await rebuild('admin', { models: ['issues', 'nothing'] })
    t.equal(answer.status, 422)
    t.match(await answer.json(), {
      message: `models: there is no read model nothing; there are ${NAMES.join(', ')}`,
    })
    t.equal((await rebuild('admin', { models: [1] })).status, 422)
  })

  await t.test('a second rebuild at the same time is refused', async (t) => {
    for await (const _ of server.services.rebuilder.rebuild(modelsNamed(['issues']))) {
      const answer = await rebuild('admin')
      t.equal(answer.status, 409)
      t.match(await answer.json(), { message: 'another rebuild is under way' })
    }
    t.equal((await rebuild('admin', { models: ['labels'] })).status, 200, 'but after it')
  })
})

const step: RebuildProgress = { model: 'pulls', events: 250, position: 250, end: 500, done: false }

/** Starts only this route, with a site admin as requester. Resolves to its URL. */
async function routeOf(t: Test, rebuilder: Partial<Rebuilder>): Promise<string> {
  const app = Fastify({ forceCloseConnections: true })
  registerErrors(app, () => '')
  const admin = { id: 1, login: 'admin', siteAdmin: true }
  app.decorateRequest('requester', null)
  app.addHook('onRequest', async (request) => void Object.assign(request, { requester: admin }))
  const whole: Rebuilder = {
    requireFree: () => {},
    async *rebuild() {},
    freeSpares: async () => {},
    ...rebuilder,
  }
  await app.register(rebuildRoutes({ rebuilder: whole, live: { ending: new AbortController().signal } }))
  t.teardown(() => app.close())
  return `${await app.listen({ host: '127.0.0.1', port: 0 })}/admin/rebuild`
}
const post = (url: string, init: RequestInit = {}) => fetch(url, { method: 'POST', ...init })

t.test('a failure during the rebuild is the last line', async (t) => {
  const url = await routeOf(t, {
    async *rebuild() {
      yield step
      throw new Error('the fold is broken')
    },
  })
  t.same(linesOf(await (await post(url)).text()), [step, { failed: 'the fold is broken' }])
})

t.test('a rebuild that ends with the server has no outcome', async (t) => {
  const stopping = new AbortController()
  const url = await routeOf(t, {
    async *rebuild() {
      yield step
      stopping.signal.throwIfAborted()
    },
  })
  stopping.abort()
  t.same(linesOf(await (await post(url)).text()), [step])
})

t.test('a client that disconnects aborts the rebuild', async (t) => {
  let ended = false
  const url = await routeOf(t, {
    async *rebuild() {
      try {
        for (;;) {
          yield step
          await new Promise((resolve) => setImmediate(resolve))
        }
      } finally {
        ended = true
      }
    },
  })
  const leaving = new AbortController()
  const { body } = await post(url, { signal: leaving.signal })
  await body?.getReader().read()
  t.notOk(ended)
  leaving.abort()
  await until('it has ended', async () => ended)
})
