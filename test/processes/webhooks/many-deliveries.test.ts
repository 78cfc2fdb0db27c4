/** Many deliveries at once: a push of many refs to a repository of several webhooks. */
import t, { type Test } from 'tap'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import {
  KEPT_DELIVERIES,
  type WebhookDelivery,
} from '../../../src/projections/models/webhooks/webhook-deliveries.fold.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { startReceiver } from './receiver.ts'

const HOOKS = 4
const TAGS = 12

/** A server with a repository that has webhooks. */
async function hookedRepository(test: Test, url: string, events: string[], hooks = HOOKS) {
  const server = await startTestServer(test, { LOG_LEVEL: 'silent', WEBHOOK_ALLOWED_HOSTS: 'loopback' })
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'many', auto_init: true })
  const wanted = { type: 'gitea' as const, config: { url, content_type: 'json' }, events, active: true }
  for (let i = 0; i < hooks; i++) await alice.repos.repoCreateHook('alice', 'many', wanted)
  return { ...server, alice }
}

async function pushTags(
  test: Test,
  { gitUrl }: Pick<Awaited<ReturnType<typeof startTestServer>>, 'gitUrl'>,
  count = TAGS,
) {
  const work = await workTree(test, gitUrl('alice', 'alice/many'))
  await work.git('fetch', '-q', 'origin')
  const refs = Array.from({ length: count }, (_, i) => `origin/main:refs/tags/v${i}`)
  await work.git('push', '-q', 'origin', ...refs)
}

t.test('a push of many refs is one note for each webhook, and each ref is delivered in order', async (t) => {
  const receiver = await startReceiver(t)
  const server = await hookedRepository(t, receiver.url('/many'), ['create', 'push'])
  const { webhookDeliveries } = server.services
  const noted: number[] = []
  const { add } = webhookDeliveries
  webhookDeliveries.add = (wanted, requireLease) => {
    noted.push(wanted.length)
    return add(wanted, requireLease)
  }
  await pushTags(t, server)
  const got = await receiver.count('/many', HOOKS * TAGS * 2)
  t.same(noted, [HOOKS])
  t.equal(new Set(got.map(({ headers }) => headers['x-gitea-delivery'])).size, HOOKS * TAGS * 2)
  // Webhooks run concurrently, so one delivery cannot be followed here; all have the same order.
  const firstAt = new Map<string, number>()
  for (const [i, { json }] of got.entries()) {
    const ref = `${json.ref}`
    if (!firstAt.has(ref)) firstAt.set(ref, i)
  }
  const tags = [...firstAt.keys()]
  const created = tags.filter((ref) => !ref.startsWith('refs/'))
  t.same(
    tags,
    created.flatMap((tag) => [`refs/tags/${tag}`, tag]),
    'the push of each tag, and then that it was created',
  )
  t.equal(created.length, TAGS)
})

t.test('a note of a push names at most the refs of one event, however many refs the push has', async (t) => {
  const server = await hookedRepository(t, 'http://127.0.0.1:1/', ['create', 'push'], 1)
  const { webhookDeliveries } = server.services
  const notes: WebhookDelivery[] = []
  const { add } = webhookDeliveries
  webhookDeliveries.add = (wanted, requireLease) => {
    notes.push(...wanted)
    return add(wanted, requireLease)
  }
  await pushTags(t, server, 400)
  const places = ({ rest = [] }: WebhookDelivery) => rest.reduce((sum, { parts }) => sum + parts.length, 1)
  await until('all is noted', () =>
    Promise.resolve(notes.reduce((sum, note) => sum + places(note), 0) === 2 * 400),
  )
  t.equal(notes.length, 2)
  for (const note of notes) {
    t.equal(places(note), 400)
    t.ok(JSON.stringify(note).length < 3000, `${JSON.stringify(note).length} characters`)
  }
})

t.test('a store failure between the two notes loses no delivery', async (t) => {
  const receiver = await startReceiver(t)
  const server = await hookedRepository(t, receiver.url('/one'), ['create'], 1)
  const { readStore } = server.services
  const { apply } = readStore
  let deaths = 0
  // MongoDB writes one document after the other.
  readStore.apply = async (changes, checkpoints) => {
    if (Symbol.asyncIterator in changes) return apply(changes, checkpoints)
    const [first, second] = changes
    const isDelivery = changes.length === 2 && first?.collection.name === 'webhook_deliveries'
    if (!isDelivery || second === undefined || deaths === 2) return apply(changes, checkpoints)
    deaths += 1
    await apply([first], checkpoints)
    throw new StoreUnavailable('died')
  }
  await pushTags(t, server, 5)
  await until('all are told', async () => {
    const got = await receiver.count('/one', 1)
    return new Set(got.map(({ json }) => json.ref)).size === 5
  })
  const got = await receiver.count('/one', 5 + deaths)
  t.equal(deaths, 2)
  const refs = got.map(({ json }) => `${json.ref}`)
  t.same(refs, [...refs].sort(), 'in their order')
})

t.test(
  'when the queue is full, the newest deliveries are kept, also while the receiver is down',
  async (t) => {
    const { alice, services } = await hookedRepository(t, 'http://127.0.0.1:1/', ['issues'])
    const { webhookDeliveries, views } = services
    webhookDeliveries.waiting = async () => 10_000
    for (let i = 0; i <= KEPT_DELIVERIES; i++) {
      await alice.repos.issueCreateIssue('alice', 'many', { title: `${i}` })
    }
    const hookId = Number((await views.webhooks.ids({}))[0])
    const last = services.projector.position()
    await until('the newest are kept, and no other', async () => {
      const { rows, total } = await webhookDeliveries.page(hookId, { limit: 1 })
      const newest = rows.flatMap((row) => ('body' in row ? [row.body.position] : []))
      return newest[0] === last && total === KEPT_DELIVERIES
    })
  },
)
