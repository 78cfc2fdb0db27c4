/** Very many deliveries: a push of many refs to a repository of many webhooks. */
import t, { type Test } from 'tap'
import { KEPT_DELIVERIES } from '../../../src/projections/webhook-deliveries.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

const HOOKS = 20
const TAGS = 80

/** A server with webhooks whose receiver is away, and a push of many tags to their repository. */
async function pushTags(test: Test, prepare: (services: Services) => void) {
  const server = await startTestServer(test, { LOG_LEVEL: 'silent', WEBHOOK_ALLOWED_HOSTS: 'loopback' })
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'many', auto_init: true })
  const config = { url: 'http://127.0.0.1:1/', content_type: 'json' }
  const wanted = { type: 'gitea' as const, config, events: ['create'], active: true }
  for (let i = 0; i < HOOKS; i++) await alice.repos.repoCreateHook('alice', 'many', wanted)
  const { services } = server
  prepare(services)
  const work = await workTree(test, server.gitUrl('alice', 'alice/many'))
  await work.git('fetch', '-q', 'origin')
  const refs = Array.from({ length: TAGS }, (_, i) => `origin/main:refs/tags/v${i}`)
  await work.git('push', '-q', 'origin', ...refs)
  return services
}

type Services = Awaited<ReturnType<typeof startTestServer>>['services']

t.test('what many webhooks are told of a large push is noted in parts, and others go on', async (t) => {
  const parts: number[] = []
  await pushTags(t, ({ webhookDeliveries }) => {
    const { add } = webhookDeliveries
    webhookDeliveries.add = (wanted) => {
      parts.push(wanted.length)
      return add(wanted)
    }
  })
  const sum = () => parts.reduce((all, part) => all + part, 0)
  await until('all are noted', () => sum() >= HOOKS * TAGS)
  t.equal(sum(), HOOKS * TAGS)
  t.ok(Math.max(...parts) <= 200, `${parts}`)
})

t.test('of what could not wait as well, the newest is kept, also while the receiver is away', async (t) => {
  const services = await pushTags(t, ({ webhookDeliveries }) => {
    webhookDeliveries.waiting = async () => 10_000
  })
  const { webhookDeliveries, views } = services
  const hookId = Number((await views.webhooks.ids({}))[0])
  await until('the newest are kept, and no other', async () => {
    const { rows, total } = await webhookDeliveries.page(hookId, { limit: 1 })
    const newest = rows.flatMap((row) => ('body' in row ? [row.body.part] : []))
    return newest[0] === 2 * TAGS - 1 && total === KEPT_DELIVERIES
  })
})
