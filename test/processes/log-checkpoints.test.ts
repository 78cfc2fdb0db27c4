import { generateKeyPairSync } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { type Checkpoint, parseCheckpoint } from '../../src/domain/transparency/checkpoint.ts'
import { growingTree, verifyConsistency, verifyInclusion } from '../../src/domain/transparency/merkle-tree.ts'
import { parseNote, signatureProblem, type VerifierKey } from '../../src/domain/transparency/signed-note.ts'
import { leafOf } from '../../src/events/store/chain.ts'
import type { RecordedEvent } from '../../src/events/store/event-store.ts'
import { LOG_CHECKPOINTS_STREAM } from '../../src/events/streams.ts'
import { signCheckpoint } from '../../src/processes/log-checkpoints.ts'
import { newLogSigner, ORIGIN } from '../log-signer.ts'
import { basic } from '../server-template.ts'
import { startTestServer, type TestServer } from '../start-server.ts'
import { until } from '../until.ts'

const { signal } = new AbortController()
const HOUR = 3_600_000
const ProofWire = Type.Object({ from: Type.Integer(), to: Type.Integer(), hashes: Type.Array(Type.String()) })

async function logOf({ services }: TestServer): Promise<RecordedEvent[]> {
  const all: RecordedEvent[] = []
  for await (const event of services.texts.stored.readAll()) all.push(event)
  return all
}

async function checkpointsOf(server: TestServer): Promise<RecordedEvent[]> {
  return (await logOf(server)).filter(({ stream }) => stream === LOG_CHECKPOINTS_STREAM)
}

const firstCheckpoint = (server: TestServer) =>
  until('the first checkpoint is signed', async () => (await checkpointsOf(server)).length === 1)

/** Signs as the worker does, at a time after now. */
async function signAfter({ services }: TestServer, ms: number): Promise<number> {
  if (services.checkpoints === undefined) throw new Error('the log is not signed')
  return signCheckpoint(services, services.checkpoints, signal, Date.now() + ms)
}

const get = (server: TestServer, path: string) => fetch(`${server.listensAt}/api/v1${path}`)

/** Returns a consistency proof. */
async function proofOf(server: TestServer, query: string) {
  const proof: unknown = await (await get(server, `/log/proof${query}`)).json()
  return Value.Parse(ProofWire, proof)
}

async function createRepository(server: TestServer, name: string): Promise<void> {
  const headers = { authorization: basic('alice'), 'content-type': 'application/json' }
  const body = JSON.stringify({ name })
  const { status } = await fetch(`${server.listensAt}/api/v1/user/repos`, { method: 'POST', headers, body })
  if (status !== 201) throw new Error(`it answers ${status}`)
}

/** The checkpoint of a note, when a key has signed it. */
function openCheckpoint(text: string, key: VerifierKey): Checkpoint {
  const note = parseNote(text)
  const problem = note === undefined ? 'it is malformed' : signatureProblem(note, key)
  const checkpoint = note && parseCheckpoint(note.text)
  if (problem !== undefined || checkpoint === undefined) throw new Error(problem ?? 'it is no checkpoint')
  return checkpoint
}

function rootOf(events: readonly RecordedEvent[]): Uint8Array {
  const tree = growingTree()
  for (const event of events) tree.add(leafOf(event))
  return tree.root()
}

t.test(
  'a checkpoint of the log is signed at the start, and after an hour when the log has grown',
  async (t) => {
    const { settings, key } = await newLogSigner(t.testdir({}))
    const server = await startTestServer(t, settings)
    await firstCheckpoint(server)
    const [first] = await checkpointsOf(server)
    const events = await logOf(server)
    t.match(first, { type: 'LogCheckpointSigned', revision: 0, metadata: { actor: null } })

    const answer = await get(server, '/log/checkpoint')
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8')
    const note = await answer.text()
    const { origin, size, root } = openCheckpoint(note, key)
    t.equal(origin, ORIGIN)
    t.equal(size, events.length - 1, 'it covers all events before its own')
    t.strictSame(Buffer.from(root), rootOf(events.slice(0, size)))
    t.strictSame(first?.data, { size, root: Buffer.from(root).toString('base64'), note })

    const metrics = await fetch(`${server.listensAt}/metrics`, { headers: { authorization: basic('admin') } })
    t.match(await metrics.text(), /^mergelog_log_checkpoint_age_seconds\S* \d/m)

    t.ok((await signAfter(server, 2 * HOUR)) === HOUR, 'an hour later the log has not grown')
    t.equal((await checkpointsOf(server)).length, 1)
    await createRepository(server, 'app')
    t.ok((await signAfter(server, HOUR / 2)) < HOUR, 'it has grown, but no hour has passed')
    t.equal((await checkpointsOf(server)).length, 1)

    await Promise.all([signAfter(server, 2 * HOUR), signAfter(server, 2 * HOUR), signAfter(server, 2 * HOUR)])
    t.equal((await checkpointsOf(server)).length, 2, 'one of several at the same time is appended')
    const second = openCheckpoint(await (await get(server, '/log/checkpoint')).text(), key)
    t.ok(second.size > size)

    const proof = await proofOf(server, `?from=${size}&to=${second.size}`)
    t.match(proof, { from: size, to: second.size })
    t.strictSame(await proofOf(server, `?from=${size}`), proof, 'to: the latest by default')
    const hashes = proof.hashes.map((one) => Buffer.from(one, 'base64'))
    t.ok(verifyConsistency({ from: size, to: second.size, hashes, fromRoot: root, toRoot: second.root }))

    for (const query of ['', '?from=', '?from=0', '?from=x', '?from=1.5', `?from=${second.size + 1}`]) {
      t.equal((await get(server, `/log/proof${query}`)).status, 422, query)
    }
    const tooLarge = await get(server, `/log/proof?from=1&to=${second.size + 1}`)
    t.equal(tooLarge.status, 422)
    t.match(await tooLarge.json(), { message: `to: must be a whole number from 1 to ${second.size}` })
    t.equal((await get(server, '/log/proof?from=2&to=1')).status, 422)
  },
)

t.test('of several nodes that sign at the same time, one appends its checkpoint', async (t) => {
  const { settings } = await newLogSigner(t.testdir({}))
  const server = await startTestServer(t, settings)
  await firstCheckpoint(server)
  await createRepository(server, 'app')
  const { checkpoints, events, writeState, log } = server.services
  if (checkpoints === undefined) throw new Error('the log is not signed')
  const held = Promise.withResolvers<void>()
  let waiting = 0
  /** Like a node whose lock was lost: all append at the same time. */
  const late = {
    ...events,
    append: async (...args: Parameters<typeof events.append>) => {
      waiting += 1
      if (waiting === 3) held.resolve()
      await held.promise
      return events.append(...args)
    },
  }
  const services = {
    events: late,
    writeState,
    log,
    runExclusive: <T>(_: string, work: () => Promise<T>) => work(),
  }
  const all = [1, 2, 3].map(() => signCheckpoint(services, checkpoints, signal, Date.now() + 2 * HOUR))
  t.strictSame(await Promise.all(all), [HOUR, HOUR, HOUR])
  t.equal((await checkpointsOf(server)).length, 2)

  await createRepository(server, 'other')
  t.equal(await signAfter(server, 0), HOUR, 'the clock was set back by two hours')
  t.equal((await checkpointsOf(server)).length, 3)
})

t.test('each event of a checkpoint has an inclusion proof, and no later event has one', async (t) => {
  const { settings, key } = await newLogSigner(t.testdir({}))
  const server = await startTestServer(t, settings)
  await firstCheckpoint(server)
  const { checkpoints } = server.services
  for (const [index, event] of (await logOf(server)).entries()) {
    const proof = await checkpoints?.inclusionProof(event.position)
    if (event.stream === LOG_CHECKPOINTS_STREAM) {
      t.equal(proof, undefined, 'the event of the checkpoint itself is not covered')
      continue
    }
    const { size, root } = openCheckpoint(proof?.note ?? '', key)
    const hashes = (proof?.hashes ?? []).map((one) => Buffer.from(one, 'base64'))
    t.match(proof, { index, size })
    t.ok(verifyInclusion(leafOf(event), { index, size, hashes, root }), `event ${index}`)
  }
  t.equal(await checkpoints?.inclusionProof(1_000_000), undefined)
})

t.test('a checkpoint is in the history of the site, and not in that of a repository', async (t) => {
  const { settings } = await newLogSigner(t.testdir({}))
  const server = await startTestServer(t, settings)
  await createRepository(server, 'app')
  await firstCheckpoint(server)
  const historyOf = async (login: string, path: string) => {
    const headers = { authorization: basic(login) }
    const answer = await fetch(`${server.listensAt}/api/v1${path}?limit=50`, { headers })
    t.equal(answer.status, 200)
    return answer.text()
  }
  t.match(await historyOf('admin', '/admin/history'), /LogCheckpointSigned/)
  t.notMatch(await historyOf('alice', '/repos/alice/app/history'), /LogCheckpointSigned/)
})

t.test('without LOG_SIGNING_KEY nothing is signed, and the routes tell why', async (t) => {
  const server = await startTestServer(t)
  t.equal(server.services.checkpoints, undefined)
  for (const path of ['/log/checkpoint', '/log/proof?from=1']) {
    const answer = await get(server, path)
    t.equal(answer.status, 404)
    t.match(await answer.json(), { message: 'the log is not signed: LOG_SIGNING_KEY is not set' })
  }
  t.strictSame(await checkpointsOf(server), [])
})

t.test('a log that does not start with the events of its last checkpoint is not signed again', async (t) => {
  const { settings } = await newLogSigner(t.testdir({}))
  const lines: string[] = []
  const server = await startTestServer(t, settings, { write: (line) => void lines.push(line) })
  await firstCheckpoint(server)
  const [last] = await checkpointsOf(server)
  const { services } = server
  if (last === undefined || services.checkpoints === undefined) throw new Error('no checkpoint')
  const { id: _, ...event } = last
  const data = { ...last.data, root: Buffer.alloc(32).toString('base64') }
  await services.events.append(LOG_CHECKPOINTS_STREAM, [{ ...event, id: crypto.randomUUID(), data }], 0)
  await createRepository(server, 'app')
  t.equal(await signAfter(server, 2 * HOUR), HOUR)
  t.equal((await checkpointsOf(server)).length, 2)
  t.match(lines.join(), /the log does not start with the events of its last checkpoint/)
})

t.test('a key that is not Ed25519, or no key, prevents the start', async (t) => {
  const directory = t.testdir({ none: 'none' })
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  await writeFile(join(directory, 'ec'), privateKey.export({ format: 'pem', type: 'pkcs8' }))
  const start = (name: string) =>
    startTestServer(t, { LOG_SIGNING_KEY: join(directory, name), PUBLIC_URL: 'https://git.example.org' })
  await t.rejects(start('ec'), { message: /^LOG_SIGNING_KEY is not an Ed25519 key: make one with/ })
  await t.rejects(start('none'), { message: /^LOG_SIGNING_KEY cannot be used: / })
  await t.rejects(start('missing'), { message: /^LOG_SIGNING_KEY cannot be used: ENOENT/ })
  await t.rejects(startTestServer(t, { LOG_SIGNING_KEY: join(directory, 'ec') }), {
    message: 'PUBLIC_URL is not set, but LOG_SIGNING_KEY needs it: it names the log',
  })
})
