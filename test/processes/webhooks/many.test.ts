/** Very many deliveries: a push of many refs to a repository of many webhooks. */
import t, { type Test } from 'tap'
import { KEPT_DELIVERIES } from '../../../src/projections/webhook-deliveries.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { startReceiver } from './receiver.ts'

const HOOKS = 20
const TAGS = 80

/** A server with a repository that has webhooks. */
async function hookedRepository(test: Test, url: string, events: string[]) {
  const server = await startTestServer(test, { LOG_LEVEL: 'silent', WEBHOOK_ALLOWED_HOSTS: 'loopback' })
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'many', auto_init: true })
  const wanted = { type: 'gitea' as const, config: { url, content_type: 'json' }, events, active: true }
  for (let i = 0; i < HOOKS; i++) await alice.repos.repoCreateHook('alice', 'many', wanted)
  return { ...server, alice }
}

async function pushTags(test: Test, { gitUrl }: Pick<Awaited<ReturnType<typeof startTestServer>>, 'gitUrl'>) {
  const work = await workTree(test, gitUrl('alice', 'alice/many'))
  await work.git('fetch', '-q', 'origin')
  const refs = Array.from({ length: TAGS }, (_, i) => `origin/main:refs/tags/v${i}`)
  await work.git('push', '-q', 'origin', ...refs)
}

t.test('a push of many refs is one note for each webhook, and each ref is told in its order', async (t) => {
  const receiver = await startReceiver(t)
  const server = await hookedRepository(t, receiver.url('/many'), ['create', 'push'])
  const { webhookDeliveries } = server.services
  const noted: number[] = []
  const { add } = webhookDeliveries
  webhookDeliveries.add = (wanted) => {
    noted.push(wanted.length)
    return add(wanted)
  }
  await pushTags(t, server)
  const got = await receiver.count('/many', HOOKS * TAGS * 2)
  t.same(noted, [HOOKS])
  t.equal(new Set(got.map(({ headers }) => headers['x-gitea-delivery'])).size, HOOKS * TAGS * 2)
  // Webhooks are told beside each other, so what each one is told cannot be seen here; all are told in the same order.
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

t.test('of what could not wait as well, the newest is kept, also while the receiver is away', async (t) => {
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
})
