import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { webhookConfigsOf } from '../../../src/auth/webhook-configs.ts'
import { organizations } from '../../../src/commands/execution/aggregates.ts'
import { verifyServer } from '../../../src/maintenance/verify/verify.ts'
import { READ_MODELS } from '../../../src/projections/views/views.ts'
import { failAppendsFrom } from '../../failing-log.ts'
import { sharedStores } from '../../shared-stores.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

const caller =
  (running: () => TestServer) =>
  async (
    login: string | null,
    method: string,
    path: string,
    body?: object,
    headers: Record<string, string> = {},
  ) => {
    const init = { method, headers, redirect: 'manual' as const }
    const answer = await running().fetch(login, `/api/v1/${path}`, {
      ...init,
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    return { status: answer.status, text, body: text === '' ? undefined : JSON.parse(text) }
  }

type Call = ReturnType<typeof caller>

/** An organization of alice with bob as a member, carol in a team, and all that can belong to one. */
async function makeSampleRepository(call: Call, org: string) {
  const must = async (login: string, method: string, path: string, body?: object) => {
    const answer = await call(login, method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  const { id } = await must('alice', 'POST', 'orgs', { username: org, full_name: `Those of ${org}` })
  await must('alice', 'PUT', `orgs/${org}/members/bob`, { permission: 'read' })
  const team = await must('alice', 'POST', `orgs/${org}/teams`, { name: 'crew', permission: 'write' })
  await must('alice', 'PUT', `teams/${team.id}/members/carol`)
  const label = await must('alice', 'POST', `orgs/${org}/labels`, { name: 'ours', color: '#aabbcc' })
  const config = { url: 'https://ci.example.org/hook', content_type: 'json', secret: 'hush' }
  const hook = await must('alice', 'POST', `orgs/${org}/hooks`, { type: 'gitea', config, active: false })
  await must('dave', 'POST', 'user/repos', { name: `for-${org}` })
  await must('dave', 'POST', `repos/dave/for-${org}/transfer`, { new_owner: org, team_ids: [team.id] })
  return { id, team, label, hook, must }
}

async function sound(t: Test, { services }: TestServer): Promise<void> {
  const scratchDir = join(t.testdirName, `scratch-${randomUUID()}`)
  await mkdir(scratchDir, { recursive: true })
  const { texts, readStore } = services
  const { stored: events, keys } = texts
  const report = await verifyServer({ events, keys, readStore, models: READ_MODELS, scratchDir })
  t.match(report, { sound: true }, 'replayed from the log, everything is the same')
}

const EVERYONE = ['alice', 'bob', 'carol', 'dave', 'admin', null]

/** Checks that nothing of the organization is left. */
async function gone(
  t: Test,
  server: TestServer,
  call: Call,
  org: string,
  was: { id: number; team: { id: number } },
  logins: readonly (string | null)[] = EVERYONE,
) {
  const { views } = server.services
  for (const path of [`orgs/${org}`, `users/${org}`, `orgs/${org}/members`, `teams/${was.team.id}`]) {
    t.equal((await call('admin', 'GET', path)).status, 404, path)
  }
  t.equal((await call('admin', 'GET', `teams/${was.id}`)).status, 404, 'its Owners')
  for (const login of logins) {
    for (const path of ['orgs', 'admin/orgs', 'user/orgs', 'user/teams', `users/search?q=${org}`]) {
      t.notMatch((await call(login, 'GET', path)).text, new RegExp(org), `${login}: ${path}`)
    }
    const filters = [`team_id=${was.team.id}`, `team_id=${was.id}`, `uid=${was.id}`]
    for (const filter of filters) {
      t.same((await call(login, 'GET', `repos/search?${filter}`)).body.data, [], `${login}: ${filter}`)
    }
  }
  for (const { id, memberships, teams, organizationIds } of await views.accounts.find({})) {
    t.notOk(`${was.id}` in memberships || `${was.team.id}` in teams, `${id} is not in it`)
    t.notOk(organizationIds.includes(was.id))
  }
  t.match(await call('dave', 'GET', `repos/dave/for-${org}`), { body: { repo_transfer: null } })
  t.equal(await views.teams.count({ organizationId: was.id }), 0)
}

async function isDeletedWhole(t: Test, server: TestServer) {
  const call = caller(() => server)
  const was = await makeSampleRepository(call, 'acme')
  const { services } = server
  const { views, secrets } = services
  const remove = (login: string | null, org = 'acme') => call(login, 'DELETE', `orgs/${org}`)
  const hook = await views.webhooks.get(`${was.hook.id}`)
  t.ok((await webhookConfigsOf(secrets, [hook?.configId ?? ''])).size)

  t.equal((await remove(null)).status, 401)
  for (const login of ['bob', 'carol', 'dave']) t.equal((await remove(login)).status, 403, login)
  t.equal((await remove('alice', 'alice')).status, 404, 'a user is not an organization')
  await was.must('alice', 'POST', 'orgs/acme/repos', { name: 'last' })
  for (const login of ['alice', 'admin']) {
    t.match(await remove(login), { status: 422, body: { message: /^acme still owns repositories \(1\)/ } })
  }
  t.equal((await call('alice', 'GET', 'orgs/acme')).status, 200, 'a refused deletion changes nothing')
  await was.must('alice', 'POST', 'repos/acme/last/issues', { title: 'of acme', labels: [was.label.id] })
  await was.must('alice', 'POST', 'repos/acme/last/transfer', { new_owner: 'alice' })

  t.equal((await remove('alice')).status, 204)
  await gone(t, server, call, 'acme', was)
  t.equal((await remove('alice')).status, 404)
  t.equal((await remove('admin')).status, 404)
  t.match(await call('alice', 'POST', 'orgs', { username: 'Acme' }), {
    status: 422,
    body: { message: /taken/ },
  })
  await until('its labels and webhooks are gone', async () => {
    const scopes = [
      await views.labels.get(`${was.label.id}`),
      await views.webhooks.get(`${was.hook.id}`),
      (await webhookConfigsOf(secrets, [hook?.configId ?? ''])).get(hook?.configId ?? ''),
    ]
    return scopes.every((one) => one === undefined)
  })
  t.match((await call('admin', 'GET', 'admin/history?type=OrganizationDeleted')).body.at(-1), {
    data: { organization: { login: 'acme' } },
  })
  t.equal((await call('dave', 'POST', 'repos/dave/for-acme/transfer', { new_owner: 'bob' })).status, 201)
  const issue = 'repos/alice/last/issues/1'
  t.match(await call('bob', 'GET', issue), { body: { title: 'of acme', labels: [] } })
  t.match(await call('bob', 'GET', `${issue}/replay?revision=0`), { body: { title: 'of acme' } })
}

t.test('DELETE /orgs/{org} ends an organization with all that belongs to it', async (t) => {
  t.testdir()
  const server = await startTestServer(t)
  await isDeletedWhole(t, server)
  await sound(t, server)
})

t.test('an organization is deleted in the same way on EventStoreDB and MongoDB', async (t) => {
  const server = await startTestServer(t, await sharedStores(t))
  for (const login of ['alice', 'bob', 'carol', 'dave']) await server.as(login)
  await isDeletedWhole(t, server)
})

t.test('what an organization receives during its deletion is removed, or prevents it', async (t) => {
  const server = await startTestServer(t)
  const call = caller(() => server)
  const { events, views } = server.services
  const { append } = events
  /** Runs `work` right before the first append of an event of this type. */
  async function between<A>(type: string, work: () => Promise<A>, ask: () => Promise<{ status: number }>) {
    let working: Promise<A> | undefined
    events.append = async (stream, appended, expected) => {
      if (working === undefined && appended.some((event) => event.type === type)) {
        working = work()
        await working
      }
      return append(stream, appended, expected)
    }
    const { status } = await ask()
    events.append = append
    return { asked: status, worked: await working }
  }
  const make = (org: string) => call('alice', 'POST', `orgs/${org}/repos`, { name: 'late' })
  const remove = (org: string) => call('alice', 'DELETE', `orgs/${org}`)
  // As for suspended nodes that lost their locks: neither waits for the other.
  const { runExclusive } = server.services
  server.services.runExclusive = (key, work) =>
    key.startsWith('organization ') ? work() : runExclusive(key, work)

  const one = await makeSampleRepository(call, 'one')
  const made = await between(
    'OrganizationDeleted',
    () => make('one'),
    () => remove('one'),
  )
  t.match(made, { asked: 204, worked: { status: 409, body: { message: /one is being deleted/ } } })
  t.equal(await views.repositories.count({ ownerId: one.id }), 0)

  await makeSampleRepository(call, 'two')
  await one.must('bob', 'POST', 'user/repos', { name: 'offered' })
  const offer = () => call('bob', 'POST', 'repos/bob/offered/transfer', { new_owner: 'two' })
  // bob may not create repositories: he can only offer his.
  const offered = await between('OrganizationDeleted', offer, () => remove('two'))
  t.match(offered, { asked: 204, worked: { status: 409 } })
  t.match(await call('bob', 'GET', 'repos/bob/offered'), { body: { repo_transfer: null } })

  const three = await makeSampleRepository(call, 'three')
  await between(
    'RepositoryCreated',
    () => remove('three'),
    () => make('three'),
  )
  await until(
    'a ghost owns nothing',
    async () => (await views.repositories.count({ ownerId: three.id })) === 0,
  )

  server.services.runExclusive = runExclusive
  const four = await makeSampleRepository(call, 'four')
  t.equal((await make('four')).status, 201)
  t.equal((await remove('four')).status, 422)
  t.equal((await call('alice', 'DELETE', 'repos/four/late')).status, 204)
  t.equal((await make('four')).status, 201, 'a refused deletion leaves it free')
  await four.must('alice', 'POST', 'user/repos', { name: 'given' })
  t.equal((await call('alice', 'DELETE', 'repos/four/late')).status, 204)
  const give = call('alice', 'POST', 'repos/alice/given/transfer', { new_owner: 'four' })
  const [given, removed] = await Promise.all([give, remove('four')])
  t.ok([202, 404, 409].includes(given.status), `${given.status}`)
  t.equal(given.status === 202, removed.status === 422, `${given.status} and ${removed.status}`)
  t.ok((await call('alice', 'GET', `repos/${given.status === 202 ? 'four' : 'alice'}/given`)).status === 200)
})

t.test(
  'a crash after any append of the deletion leaves the organization whole, or ends all of it',
  async (t) => {
    const DATA_DIR = t.testdir()
    let running = await startTestServer(t, { DATA_DIR, LOG_LEVEL: 'fatal' })
    const call = caller(() => running)

    // The appends of a deletion: the claim, the event, the end of the transfer.
    for (const n of [1, 2, 3]) {
      const crash = `after append ${n}`
      const org = `crashed-${n}`
      const was = await makeSampleRepository(call, org)
      failAppendsFrom(running.services, n, 'after')
      await call('alice', 'DELETE', `orgs/${org}`)
      await running.stop()
      running = await startTestServer(t, { DATA_DIR, LOG_LEVEL: 'fatal' })
      const state = await organizations.load(running.services, was.id)
      const isDeleted = n >= 2
      t.equal(state.status, isDeleted ? 'deleted' : 'active', crash)
      if (!isDeleted) {
        t.equal((await call('carol', 'GET', `orgs/${org}`)).body.full_name, `Those of ${org}`, crash)
        t.match(await call('alice', 'GET', `teams/${was.team.id}/members`), { body: [{ login: 'carol' }] })
        t.match(await call('dave', 'GET', `repos/dave/for-${org}`), { body: { repo_transfer: {} } })
        t.equal((await call('alice', 'DELETE', `orgs/${org}`)).status, 204, `${crash}: again`)
      }
      const { views } = running.services
      await until('what hung on it is gone', async () => {
        const transfer = (await call('dave', 'GET', `repos/dave/for-${org}`)).body.repo_transfer
        const left = [await views.labels.get(`${was.label.id}`), await views.webhooks.get(`${was.hook.id}`)]
        return !transfer && left.every((one) => one === undefined)
      })
      await gone(t, running, call, org, was, ['carol', null])
    }
    await sound(t, running)
  },
)
