/** Signed checkpoints of three nodes, and of a server that is killed. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { formatVerifierKey } from '../../src/domain/transparency/signed-note.ts'
import { LOG_CHECKPOINTS_STREAM } from '../../src/events/streams.ts'
import { signCheckpoint } from '../../src/processes/log-checkpoints.ts'
import { mergelog } from '../cli/command-line.ts'
import { killedAfter } from '../killed-server.ts'
import { newLogSigner } from '../log-signer.ts'
import { temporaryDirectory } from '../maintenance/backup/restored.ts'
import { basic } from '../server-template.ts'
import { sharedStores } from '../shared-stores.ts'
import { startTestServer, type TestServer } from '../start-server.ts'
import { until } from '../until.ts'

const { signal } = new AbortController()
const HOUR = 3_600_000

async function checkpointsOf({ services }: TestServer): Promise<number> {
  let count = 0
  for await (const _ of services.events.readStream(LOG_CHECKPOINTS_STREAM)) count += 1
  return count
}

const noteOf = async (server: TestServer) => (await server.fetch(null, '/api/v1/log/checkpoint')).text()

t.test('one of three nodes signs, and any node answers with its checkpoint and proves events', async (t) => {
  const directory = await temporaryDirectory(t)
  const { settings, key } = await newLogSigner(directory)
  const stores = { ...(await sharedStores(t)), ...settings }
  const nodes: TestServer[] = []
  for (const NODE_NAME of ['one', 'two', 'three'])
    nodes.push(await startTestServer(t, { ...stores, NODE_NAME }))
  const [first] = nodes
  if (first === undefined) throw new Error('no node')
  await until('a checkpoint is signed', async () => (await checkpointsOf(first)) > 0)
  const alice = await first.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app' })
  const sign = ({ services }: TestServer) => {
    if (services.checkpoints === undefined) throw new Error('the log is not signed')
    return signCheckpoint(services, services.checkpoints, signal, Date.now() + 2 * HOUR)
  }
  await Promise.all(nodes.map(sign))
  t.equal(await checkpointsOf(first), 2)
  const note = await noteOf(first)
  const [, size] = note.split('\n')
  for (const node of nodes) {
    t.equal(await noteOf(node), note)
    t.equal((await node.fetch(null, `/api/v1/log/proof?from=1&to=${size}`)).status, 200)
    for await (const { position } of node.services.events.readAll({ maxCount: 3 })) {
      t.match(await node.services.checkpoints?.inclusionProof(position), { note })
    }
  }
  const file = join(directory, 'note')
  await writeFile(file, note)
  const { EVENTSTORE_URL, MONGODB_URL, DATA_DIR } = stores
  const verify = ['verify', '--since', file, '--key', formatVerifierKey(key)]
  t.match(await mergelog(verify, { EVENTSTORE_URL, MONGODB_URL, DATA_DIR }), { code: 0, stderr: '' })
})

t.test('after kill -9 right after the event of a checkpoint, the next start continues', async (t) => {
  const DATA_DIR = await temporaryDirectory(t)
  const { settings, key } = await newLogSigner(await temporaryDirectory(t))
  const before = await startTestServer(t, { DATA_DIR })
  await before.fetch('alice', '/api/v1/user/repos', {
    method: 'POST',
    headers: { authorization: basic('alice') },
    body: JSON.stringify({ name: 'app' }),
  })
  await before.stop()
  await killedAfter(t, DATA_DIR, /^append LogCheckpointSigned /, undefined, settings)
  const server = await startTestServer(t, { DATA_DIR, ...settings })
  await until('a checkpoint is signed', async () => (await checkpointsOf(server)) > 0)
  t.equal(await checkpointsOf(server), 1)
  const verified = await mergelog(['verify', '--key', formatVerifierKey(key)], { DATA_DIR })
  t.match(verified, { code: 0, stdout: /1 signed checkpoint agrees with it/ })
})
