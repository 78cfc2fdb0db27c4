import { once } from 'node:events'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { credentials } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import type { ObserveCall } from '../../src/upgrade/grpc-queries.ts'
import { certificateFor } from '../doubles/certificates.ts'
import { until } from '../until.ts'
import { call, clientOf, QUERY, started } from './grpc-client.ts'

/** A server that checks its files all the time, with a first certificate, and the next one. */
async function setUp(t: Test) {
  const dir = t.testdir()
  const [first, next] = ['first', 'next'].map((name) => certificateFor(join(dir, name), 'DNS:localhost'))
  if (first === undefined || next === undefined) throw new Error('both are made')
  const tls = { cert: join(dir, 'tls.crt'), key: join(dir, 'tls.key') }
  await writeFile(tls.cert, first.certificate)
  await writeFile(tls.key, first.key)
  const { server, logged } = await started(t, { tls, renewEveryMs: 20 })
  const clientWith = async ({ caFile }: { caFile: string }) =>
    clientOf(t, server.address, credentials.createSsl(await readFile(caFile)))
  /** The fingerprint of a new connection's certificate. */
  const fingerprint = async () => {
    const socket = connect({
      host: '127.0.0.1',
      port: server.port,
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
    })
    socket.on('error', () => {})
    await once(socket, 'secureConnect')
    const { fingerprint256 } = socket.getPeerCertificate()
    socket.destroy()
    return fingerprint256
  }
  const logs = (pattern: RegExp) => logged.filter((line) => pattern.test(line)).length
  return { tls, first, next, logs, clientWith, fingerprint }
}

t.test(
  'a renewed certificate applies to new connections; open ones continue, unusable files change nothing',
  async (t) => {
    const { tls, first, next, logs, clientWith, fingerprint } = await setUp(t)
    const before = await fingerprint()
    const connected = await clientWith(first)
    t.strictSame(await call(connected, QUERY.sdk, 'Authority'), { address: '' })

    await writeFile(tls.cert, 'half a fi')
    await until('the log says so', () => logs(/GRPC_TLS_CERT is not a certificate/) > 0)
    t.equal(await fingerprint(), before)
    // First only the certificate: it does not fit the old key.
    await writeFile(`${tls.cert}.new`, next.certificate)
    await rename(`${tls.cert}.new`, tls.cert)
    await until('the log says so', () => logs(/GRPC_TLS_KEY is not the key/) > 0)
    t.equal(await fingerprint(), before)

    await writeFile(tls.key, next.key)
    await until('it is used', async () => (await fingerprint()) !== before)
    t.strictSame(await call(await clientWith(next), QUERY.sdk, 'Authority'), { address: '' })
    // It does not know the new CA, so this is the earlier connection.
    t.strictSame(await call(connected, QUERY.sdk, 'Authority'), { address: '' })
    t.equal(logs(/is not the key/), 1, 'a problem is logged once')
    t.equal(logs(/new connections get the new certificate/), 1)
  },
)

t.test('a call has the address of its client, with TLS and without', async (t) => {
  const certificate = certificateFor(join(t.testdir(), 'one'), 'DNS:localhost')
  const tls = { cert: join(t.testdirName, 'tls.crt'), key: join(t.testdirName, 'tls.key') }
  await writeFile(tls.cert, certificate.certificate)
  await writeFile(tls.key, certificate.key)
  for (const secure of [false, true]) {
    const peers: string[] = []
    const observe: ObserveCall = (_method, call) => () => void peers.push(call.getPeer())
    const { server } = await started(t, { observe, ...(secure && { tls }) })
    const given = secure ? credentials.createSsl(await readFile(certificate.caFile)) : undefined
    await call(clientOf(t, server.address, given), QUERY.sdk, 'CurrentPlan', {})
    await until('the call has ended', () => peers.length > 0)
    t.match(peers, [/^127\.0\.0\.1:\d+$/], secure ? 'with TLS' : 'without')
  }
})
