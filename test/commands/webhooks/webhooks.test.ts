/** Webhooks: creation, listing, changes and deletion by their admins. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { webhookConfigs } from '../../../src/auth/webhook-configs.ts'
import { MAX_WEBHOOKS } from '../../../src/commands/webhooks/routes.ts'
import { until } from '../../until.ts'
import { startPulls } from '../pull-requests/pull-repository.ts'

const { server, alice, bob, repository } = await startPulls(t, { WEBHOOK_ALLOWED_HOSTS: 'ci.internal' })
const { secrets, readStore, events } = server.services

const URL_WITH_TOKEN = 'https://ci.example.org/api/hook?access_token=tokenoftheurl'
const wanted = {
  type: 'gitea' as const,
  config: { url: URL_WITH_TOKEN, content_type: 'json', secret: 'keyofsignatures' },
  authorization_header: 'Bearer headerofhook',
  events: ['push', 'pull_request_only', 'issue_comment'],
  branch_filter: 'release/*',
  active: true,
}

const configs = async () => (await secrets.find(webhookConfigs, {})).length

/** Resolves when the process has handled all events. */
async function seen(): Promise<void> {
  const last = await events.lastPosition()
  await until('the process has seen it', async () => {
    const checkpoint = await readStore.checkpoint('process_webhooks')
    return (checkpoint?.position ?? 0) >= last
  })
}

t.test(
  'a webhook is made, listed, changed and deleted; its secrets are neither shown nor in the log',
  async (t) => {
    const { call } = await repository(t, 'hooked')
    const { data: hook, status } = await alice.repos.repoCreateHook('alice', 'hooked', wanted)
    t.equal(status, 201)
    t.match(hook, {
      type: 'gitea',
      config: { url: URL_WITH_TOKEN, content_type: 'json' },
      events: ['push', 'issue_comment', 'pull_request'],
      branch_filter: 'release/*',
      authorization_header: '',
      active: true,
    })
    t.notMatch(JSON.stringify(hook), /keyofsignatures|headerofhook/)
    const id = hook.id ?? 0
    t.strictSame((await alice.repos.repoGetHook('alice', 'hooked', id)).data, hook)
    t.strictSame((await alice.repos.repoListHooks('alice', 'hooked')).data, [hook])

    const before = await configs()
    const { data: switched } = await alice.repos.repoEditHook('alice', 'hooked', id, { active: false })
    t.match(switched, { active: false, events: hook.events, branch_filter: 'release/*', config: hook.config })
    const [config] = await secrets.find(webhookConfigs, {})
    t.match(config, { secret: 'keyofsignatures', authorization: 'Bearer headerofhook' })
    const url = 'https://other.example.org/hook'
    const { data: moved } = await alice.repos.repoEditHook('alice', 'hooked', id, { config: { url } })
    t.match(moved.config, { url, content_type: 'json' })
    await seen()
    t.equal(await configs(), before, 'the old one is forgotten')
    const [after] = await secrets.find(webhookConfigs, {})
    t.match(
      after,
      { url, secret: 'keyofsignatures', authorization: '' },
      'the header was for the other server',
    )

    const types: string[] = []
    for await (const event of events.readStream(`webhook-${id}`)) {
      types.push(event.type)
      t.notMatch(JSON.stringify(event), /tokenoftheurl|keyofsignatures|headerofhook/)
    }
    t.same(types, ['WebhookCreated', 'WebhookEdited', 'WebhookEdited'])
    for (const file of ['events.db', 'events.db-wal', 'views.db', 'views.db-wal']) {
      const bytes = await readFile(join(server.dataDir, file)).catch(() => Buffer.alloc(0))
      t.notOk(/tokenoftheurl|keyofsignatures|headerofhook/.test(bytes.toString('latin1')), file)
    }
    const { body } = await call('alice', 'GET', 'history?type=WebhookCreated')
    t.equal(body.length, 1, 'the history shows it to admins')
    t.same((await call(null, 'GET', 'history?type=WebhookCreated')).body, [], 'and to nobody else')

    t.equal((await call('alice', 'DELETE', `hooks/${id}`)).status, 204)
    t.equal((await call('alice', 'DELETE', `hooks/${id}`)).status, 404)
    t.equal((await call('alice', 'GET', `hooks/${id}`)).status, 404)
    await seen()
    t.equal(await configs(), before - 1, 'its secrets are gone')
  },
)

t.test('an invalid webhook is refused with 422 and the field', async (t) => {
  const { call } = await repository(t, 'refused')
  const { config } = wanted
  const bad: [object, RegExp][] = [
    [{ type: 'slack' }, /^type: "slack" is not gitea or gogs/],
    [{ config: { url: URL_WITH_TOKEN } }, /^config.content_type: is required/],
    [{ config: { content_type: 'json' } }, /^config.url: is required/],
    [{ config: { ...config, content_type: 'xml' } }, /^config.content_type/],
    [{ config: { ...config, url: 'ftp://ci.example.org' } }, /^config.url: must be an http or https URL/],
    [{ config: { ...config, url: 'http://127.0.0.1:8080/' } }, /^config.url: .*own network/],
    [{ config: { ...config, url: 'http://169.254.169.254/' } }, /^config.url: .*own network/],
    [{ config: { ...config, secret: 'x'.repeat(256) } }, /^config.secret/],
    [{ branch_filter: 'release/[' }, /^branch_filter/],
    [{ events: ['pushed'] }, /^events: "pushed" is not a kind of event/],
    [{ events: ['constructor'] }, /^events: "constructor" is not a kind of event/],
    [{ authorization_header: 'a\nb' }, /^authorization_header/],
  ]
  const before = [await configs(), await events.lastPosition()]
  for (const [option, message] of bad) {
    const answer = await call('alice', 'POST', 'hooks', { ...wanted, ...option })
    t.match([answer.status, answer.message], [422, message], JSON.stringify(option))
  }
  t.same([await configs(), await events.lastPosition()], before, 'nothing has changed')
  const named = { ...wanted, config: { ...config, url: 'http://ci.internal/' } }
  t.equal((await call('alice', 'POST', 'hooks', named)).status, 201)
  const first = await call(
    'alice',
    'POST',
    'hooks',
    { ...wanted, events: undefined },
    { 'Idempotency-Key': 'one' },
  )
  t.same(first.body.events, ['push'], 'without events it is push, as in Gitea')
  const again = await call(
    'alice',
    'POST',
    'hooks',
    { ...wanted, events: undefined },
    { 'Idempotency-Key': 'one' },
  )
  t.strictSame(again.body, first.body, 'a retried request makes no second one')
})

t.test('webhooks belong to one scope, and are limited', async (t) => {
  await repository(t, 'one')
  const { call } = await repository(t, 'two')
  const { data: hook } = await alice.repos.repoCreateHook('alice', 'one', wanted)
  for (const [method, path] of [
    ['GET', `hooks/${hook.id}`],
    ['PATCH', `hooks/${hook.id}`],
    ['DELETE', `hooks/${hook.id}`],
    ['POST', `hooks/${hook.id}/tests`],
    ['GET', `hooks/${hook.id}/deliveries`],
    ['GET', 'hooks/x'],
  ] as const) {
    const body = method === 'PATCH' ? { active: true } : undefined
    t.equal((await call('alice', method, path, body)).status, 404, `${method} ${path}`)
  }
  const keyed = () =>
    call('alice', 'POST', 'hooks', { ...wanted, active: false }, { 'Idempotency-Key': 'one of the last' })
  const first = await keyed()
  const many = Array.from({ length: MAX_WEBHOOKS + 4 }, () =>
    call('alice', 'POST', 'hooks', { ...wanted, active: false }),
  )
  const statuses = (await Promise.all(many)).map(({ status }) => status)
  t.equal(statuses.filter((status) => status === 201).length, MAX_WEBHOOKS - 1)
  t.equal(statuses.filter((status) => status === 422).length, 5)
  const again = await keyed()
  t.same([again.status, again.body], [201, first.body], 'a repeated request is not a second webhook')
})

t.test('webhooks go with their repository and with their user', async (t) => {
  const before = await configs()
  await repository(t, 'passing')
  await alice.repos.repoCreateHook('alice', 'passing', wanted)
  const carol = await server.as('carol')
  const { data: own } = await carol.user.userCreateHook(wanted)
  t.equal(await configs(), before + 2)
  t.equal((await server.fetch('bob', `/api/v1/user/hooks/${own.id}`)).status, 404)
  t.equal((await bob.user.userListHooks()).data.length, 0)
  await alice.repos.repoDelete('alice', 'passing')
  const admin = await server.as('admin')
  await admin.admin.adminDeleteUser('carol')
  await seen()
  t.equal(await configs(), before)
  t.equal(await server.services.views.webhooks.get(`${own.id}`), undefined)
})
