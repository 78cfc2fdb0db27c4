/** Each named point must be a real effect of a server: a point without a match is never reached. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { connect } from '../../faults/client.ts'
import { newLedger } from '../../faults/ledger.ts'
import { makeLoad } from '../../faults/load.ts'
import { startNodes } from '../../faults/nodes.ts'
import { pointsOf, SAGA_NAMES } from '../../faults/points.ts'
import { startProxy } from '../../faults/proxy.ts'
import { packRefs } from '../../faults/refs-to-pack.ts'
import { doubles, embeddedStores } from '../../faults/stores.ts'
import { until } from '../until.ts'

const password = 'the password of all points'

for (const kind of ['embedded', 'doubles']) {
  t.test(`a server has an effect at each named point between the steps of sagas (${kind})`, async (t) => {
    const directory = await mkdtemp(join(tmpdir(), 'mergelog-points-test-'))
    t.teardown(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }))
    const stores = kind === 'doubles' ? await doubles(directory) : embeddedStores
    t.teardown(() => stores.end())
    const proxy = await startProxy(1)
    t.teardown(() => proxy.close())
    const effects = join(directory, 'effects')
    const environment = {
      ...stores.environment,
      DATA_DIR: join(directory, 'data'),
      ADMIN_PASSWORD: password,
      PORT: '0',
      GRPC_PORT: '0',
      PUBLIC_URL: proxy.url,
      TRUST_PROXY: 'loopback',
      LOG_LEVEL: 'info',
      FAULTS_EFFECTS: effects,
    }
    const nodes = await startNodes(1, environment, directory, proxy)
    t.teardown(() => Promise.all(nodes.map((node) => node.kill())))
    await Promise.all(nodes.map((node) => node.healthy()))
    const client = await connect(proxy.url, password, 'app', directory)
    // With this seed, the first pull requests are merged with their branch, and when their checks succeed.
    const load = makeLoad({ client, ledger: newLedger(), password, seed: 56 })
    const stopping = new AbortController()
    const working = load.work(stopping.signal)
    // Each client finishes its current work, and no more.
    stopping.abort()
    await working
    await packRefs(client, environment.DATA_DIR)
    await client.request('POST', '/admin/rebuild', { body: { models: ['labels'] } })
    let missing = pointsOf(SAGA_NAMES)
    const allSeen = async () => {
      const seen = (await readFile(effects, 'utf8')).split('\n').slice(0, -1)
      const texts = seen.map((line) => String(JSON.parse(line)))
      missing = missing.filter(({ effect }) => !texts.some((text) => effect.test(text)))
      return missing.length === 0
    }
    // Missing effects are named below.
    await until('each point has its effect', allSeen).catch(() => {})
    t.strictSame(
      missing.map(({ saga, step }) => `${step} (${saga})`),
      [],
    )
  })
}
