/** A start that cannot use MongoDB prints one line with the setting and the remedy. */
import { promises } from 'node:dns'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { secretCollections } from '../../src/auth/secrets.ts'
import { loadConfig } from '../../src/config/config.ts'
import { READ_MODELS } from '../../src/projections/views/views.ts'
import { openReadStores } from '../../src/server/stores.ts'
import { type Certificate, certificateFor } from '../doubles/certificates.ts'
import { startMongoDouble } from '../doubles/mongodb.ts'
import { startErrors } from '../start-errors.ts'

const OWN = { password: 'hunter2@/%', databases: ['mergelog', 'mergelog_secrets'] }
const USERS = new Map([
  ['ann', OWN],
  ['ben', { ...OWN, databases: ['other'] }],
  ['cat', { ...OWN, databases: ['mergelog'] }],
])
const as = (name: string) => `${name}:hunter2%40%2F%25@`

async function started(t: Test, options: { tls?: Certificate; users?: typeof USERS; lacks?: string } = {}) {
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-start-'))
  t.teardown(() => rm(dir, { recursive: true }))
  const double = await startMongoDouble({ port: 0, file: join(dir, 'mongodb.db'), ...options })
  t.teardown(() => double.close())
  return {
    double,
    url: (user = '', query = '', host = '127.0.0.1') => `mongodb://${user}${host}:${double.port}/${query}`,
  }
}

const { printed, refused } = startErrors('MONGODB_URL', async (MONGODB_URL) => {
  const { readStore, secrets } = await openReadStores(loadConfig({ MONGODB_URL, DATA_DIR: '/nowhere' }))
  try {
    await readStore.prepare(READ_MODELS.map(({ collection }) => collection))
    await secrets.prepare(secretCollections)
  } finally {
    await Promise.all([readStore.close(), secrets.close()])
  }
})

const ca = ({ caFile }: Certificate) => `?tls=true&tlsCAFile=${encodeURIComponent(caFile)}`

t.test('MongoDB start errors: wrong password, no user, not authorized', async (t) => {
  const { url } = await started(t, { users: USERS })
  t.equal(await printed(url(as('ann'))), 'no error')
  const unknown = /MongoDB does not know the user of MONGODB_URL, or the password is wrong; .* authSource/
  await refused(t, url('ann:hunter2@'), unknown)
  await refused(t, url('nobody:hunter2@'), unknown)
  await refused(t, url(), /MongoDB wants a user: put one into MONGODB_URL, as mongodb:\/\/user:password@host/)
  const denied = (database: string) =>
    new RegExp(
      `does not allow the user of MONGODB_URL the command listCollections in the database ${database}: give it the role readWrite`,
    )
  await refused(t, url(as('ben')), denied('mergelog'))
  await refused(t, url(as('cat')), denied('mergelog_secrets'))
})

t.test('MongoDB start errors: TLS wanted, TLS not wanted, certificates', async (t) => {
  const dir = t.testdir()
  const own = certificateFor(join(dir, 'own'), 'IP:127.0.0.1')
  const other = certificateFor(join(dir, 'other'), 'DNS:documents.example.org')
  const expired = certificateFor(join(dir, 'expired'), 'IP:127.0.0.1', { isExpired: true })
  const { url } = await started(t, { tls: own, users: USERS })
  t.equal(await printed(url(as('ann'), ca(own))), 'no error')
  const [forOther, late, plain] = [
    await started(t, { tls: other }),
    await started(t, { tls: expired }),
    await started(t),
  ]
  const unknown =
    /127\.0\.0\.1:\d+: the certificate of the server comes from an unknown CA: name .* tlsCAFile/
  const noFile = '?tls=true&tlsCAFile=/nowhere/ca.pem'
  // Each waits for the driver's timeout.
  await Promise.all([
    refused(
      t,
      url(as('ann')),
      /127\.0\.0\.1:\d+: the server ends the connection: if it has TLS, add tls=true/,
    ),
    refused(t, url(as('ann'), '?tls=true'), unknown),
    refused(t, url(as('ann'), ca(other)), unknown),
    refused(t, url(as('ann'), noFile), /MONGODB_URL: the file \/nowhere\/ca\.pem cannot be read \(ENOENT\)/),
    refused(t, forOther.url('', ca(other)), /certificate of the server is for another host: use a name/),
    refused(t, late.url('', ca(expired)), /the certificate of the server has expired: renew it/),
    refused(t, plain.url('', '?tls=true'), /the server does not speak TLS: add tls=false/),
  ])
})

t.test('MongoDB start errors: unreachable, silent, unknown host', async (t) => {
  const [{ url }, dead] = [await started(t), await started(t)]
  await dead.double.close()
  const silent = createServer()
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  t.teardown(() => silent.close())
  const address = silent.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const noPrimary = /MONGODB_URL: no server can take writes: check the option replicaSet/
  await Promise.all([
    refused(t, url('', '', 'no-such-host.invalid'), /MONGODB_URL: no-such-host\.invalid:\d+: /),
    refused(t, url('', '?replicaSet=none'), noPrimary),
    refused(t, dead.url(as('ann')), /127\.0\.0\.1:\d+: no server listens on this port: .* \(ECONNREFUSED\)/),
    refused(
      t,
      `mongodb://127.0.0.1:${port}`,
      /127\.0\.0\.1:\d+: the host does not answer: check the address/,
    ),
  ])
})

t.test(
  "a MongoDB that lacks a required feature is refused at start with the server's own message",
  async (t) => {
    const needed = [
      '$cond',
      '$bsonSize',
      '$unionWith',
      '$lookup',
      '$count',
      '$project',
      '$sort',
      '$skip',
      '$limit',
    ]
    for (const lacks of [...needed, '$in', '$regex', '$gte', '$exists']) {
      const { double, url } = await started(t, { lacks })
      const said = `${lacks.replace('$', '\\$')} is not supported by the double`
      const message = new RegExp(
        `^mergelog: MONGODB_URL: this server cannot answer a query that Mergelog needs; use MongoDB 5\\.0 or later\\. It says: ${said}$`,
      )
      await refused(t, url(), message)
      t.notOk(
        double.commands.some((name) => /insert|update|create/i.test(name)),
        'nothing was written',
      )
    }
  },
)

t.test('MongoDB start errors: an unknown host for mongodb+srv', async (t) => {
  const { resolve } = promises
  t.teardown(() => Object.assign(promises, { resolve }))
  Object.assign(promises, {
    async resolve(name: string, type: string) {
      throw Object.assign(new Error(`query${type} ENOTFOUND ${name}`), {
        code: 'ENOTFOUND',
        syscall: `query${type}`,
        hostname: name,
      })
    },
  })
  await refused(
    t,
    `mongodb+srv://${as('ann')}no-such-cluster.mergelog.invalid/`,
    /MONGODB_URL: the name service has no hosts for _mongodb\._tcp\.no-such-cluster\.mergelog\.invalid: correct the name, or list the hosts/,
  )
})
