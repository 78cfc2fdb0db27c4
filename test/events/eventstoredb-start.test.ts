/** A start that cannot use EventStoreDB prints one line with the setting and the remedy. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { loadConfig } from '../../src/config/config.ts'
import { parseEventStoreDbUrl } from '../../src/config/eventstoredb-url.ts'
import { StoreUnavailable } from '../../src/events/store/event-store.ts'
import { startProblem } from '../../src/events/store/eventstoredb/diagnosis.ts'
import { openEvents } from '../../src/server/stores.ts'
import { startMergelog } from '../cli/command-line.ts'
import { type Certificate, certificateFor } from '../doubles/certificates.ts'
import { startEventStoreCluster, startEventStoreDouble } from '../doubles/eventstore.ts'
import { program } from '../program.ts'
import { startErrors } from '../start-errors.ts'

const USERS = new Map([['ann', 'hunter2@/%']])
const ANN = 'ann:hunter2%40%2F%25'

async function started(t: Test, tls?: Certificate, name = '127.0.0.1') {
  const options = tls === undefined ? {} : { tls, users: USERS }
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-start-'))
  t.teardown(() => rm(dir, { recursive: true }))
  const double = await startEventStoreDouble({ port: 0, file: join(dir, 'events.db'), ...options })
  t.teardown(() => double.close())
  const as = (user: string, query = '', host = name) => `esdb://${user}@${host}:${double.port}${query}`
  return { double, as }
}

const { printed, refused } = startErrors('EVENTSTORE_URL', async (EVENTSTORE_URL) => {
  const store = await openEvents(loadConfig({ EVENTSTORE_URL }))
  await store.close()
})

const ca = ({ caFile }: Certificate) => `?tlsCAFile=${encodeURIComponent(caFile)}`

t.test('users and their permissions', async (t) => {
  const tls = certificateFor(join(t.testdir(), 'own'), 'DNS:localhost')
  const { double, as } = await started(t, tls, 'localhost')
  t.equal(await printed(as(ANN, ca(tls))), 'no error')
  await refused(
    t,
    as('ann:wrong', ca(tls)),
    /does not know the user of EVENTSTORE_URL, or the password is wrong/,
  )
  double.access.deniedReads.add('$all')
  const denied = /does not allow the user of EVENTSTORE_URL to read \$all: grant it in the stream's ACL/
  await refused(t, as(ANN, ca(tls)), denied)
})

t.test('certificates', async (t) => {
  const dir = t.testdir()
  const own = certificateFor(join(dir, 'own'), 'IP:127.0.0.1')
  const other = certificateFor(join(dir, 'other'), 'DNS:events.example.org')
  const expired = certificateFor(join(dir, 'expired'), 'IP:127.0.0.1', { isExpired: true })
  const { as } = await started(t, own)
  const unknown =
    /127\.0\.0\.1:\d+: the certificate of the server comes from an unknown CA: name .* tlsCAFile/
  await refused(t, as(ANN), unknown)
  await refused(t, as(ANN, ca(other)), unknown)
  await refused(
    t,
    as(ANN, '?tlsCAFile=/nowhere/ca.pem'),
    /the file of its option tlsCAFile cannot be read \(ENOENT\)/,
  )
  const forOther = await started(t, other)
  await refused(t, forOther.as(ANN, ca(other)), /certificate of the server is for another host: use a name/)
  const late = await started(t, expired)
  await refused(t, late.as(ANN, ca(expired)), /the certificate of the server has expired: renew it/)
})

t.test('addresses', async (t) => {
  const { as } = await started(t)
  await refused(t, as(ANN), /the server does not speak TLS: add tls=false/)
  const tls = certificateFor(join(t.testdir(), 'own'), 'IP:127.0.0.1')
  const secure = await started(t, tls)
  await refused(t, secure.as(ANN, '?tls=false'), /if the server has TLS, leave out tls=false/)
  await secure.double.close()
  await refused(
    t,
    secure.as(ANN, ca(tls)),
    /no server listens on this port: start it, or correct the port \(ECONNREFUSED\)/,
  )
  await refused(t, as(ANN, '?tls=false', 'no-such-host.invalid'), /no-such-host\.invalid:\d+: /)
})

t.test('a cluster: each node is named', async (t) => {
  const cluster = await startEventStoreCluster({ nodes: 3, file: join(t.testdir(), 'events.db') })
  await cluster.close()
  const [first, second, third] = cluster.nodes.map(
    ({ port }) => `127.0.0.1:${port}: no server listens on this port[^;]*`,
  )
  await refused(t, cluster.url, new RegExp(`EVENTSTORE_URL: ${first}; ${second}; ${third}$`))
})

t.test('from Node 26 on, a node that is named by its address is not reached with TLS', async (t) => {
  const tls = certificateFor(join(t.testdir(), 'own'), 'IP:127.0.0.1')
  const { as } = await started(t, tls)
  const unreached = new StoreUnavailable('no answer')
  const names =
    'with TLS, Node 26 connects to host names only: use those of the certificates, and not IP addresses'
  t.match(await startProblem(parseEventStoreDbUrl(as(ANN, ca(tls))), unreached, 26), {
    message: `EVENTSTORE_URL: ${names}`,
  })
  for (const [url, version] of [
    [as(ANN, ca(tls)), 24],
    [as(ANN, '?tls=false'), 26],
  ] as const) {
    t.match(await startProblem(parseEventStoreDbUrl(url), unreached, version), {
      message: /does not answer as EventStoreDB/,
    })
  }
})

const asksAddresses = Number.parseInt(process.versions.node, 10) < 26

t.test(
  'a refused start at a TLS address prints one line and no warning of Node',
  { skip: asksAddresses ? false : 'from Node 26 on, no server at an address is reached with TLS' },
  async (t) => {
    const tls = certificateFor(join(t.testdir(), 'own'), 'IP:127.0.0.1')
    const { as } = await started(t, tls)
    const verify = startMergelog(t, ['verify'], { EVENTSTORE_URL: as('ann:wrong', ca(tls)) })
    t.match(await errorsOf(verify), /^[^\n]*or the password is wrong[^\n]*\n$/)
    const server = spawn(process.execPath, [program('src/main')], {
      env: {
        ...process.env,
        EVENTSTORE_URL: as('ann:wrong', ca(tls)),
        DATA_DIR: t.testdirName,
        PORT: '0',
        GRPC_PORT: '0',
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    t.teardown(() => void server.kill('SIGKILL'))
    t.match(await errorsOf(server), /^[^\n]*or the password is wrong[^\n]*\n$/)
  },
)

async function errorsOf(child: ChildProcess): Promise<string> {
  let text = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    text += chunk
  })
  await once(child, 'close')
  return text
}
