import { once } from 'node:events'
import { rename, writeFile } from 'node:fs/promises'
import { Agent, request as httpRequest, type RequestOptions } from 'node:https'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import Fastify from 'fastify'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { ConfigError, loadConfig } from '../../../src/config/config.ts'
import { limitConnections } from '../../../src/http/connections/connections.ts'
import { httpsServer, renewHttps, requireCertificate } from '../../../src/http/connections/https.ts'
import { refuseUnreadable } from '../../../src/http/requests/unreadable-requests.ts'
import { certificateFor } from '../../doubles/certificates.ts'
import { gitIn } from '../../git-client.ts'
import { basic, passwordOf } from '../../server-template.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

/** Files with a new certificate for this machine. */
async function files(dir: string) {
  const made = certificateFor(dir, 'IP:127.0.0.1')
  const cert = join(dir, 'tls.crt')
  const key = join(dir, 'tls.key')
  await writeFile(cert, made.certificate)
  await writeFile(key, made.key)
  return { cert, key, ca: made.caFile, made }
}

/** A request that does not check the server's certificate, which other tests do. */
async function get(url: string, options: RequestOptions = {}) {
  const request = httpRequest(url, { rejectUnauthorized: false, ...options })
  request.end()
  const [answer] = await once(request, 'response')
  return { status: answer.statusCode, headers: answer.headers, body: await text(answer) }
}

const opened = async (port: number): Promise<TLSSocket> => {
  const socket = connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false })
  socket.on('error', () => {})
  await once(socket, 'secureConnect')
  return socket
}

t.test('with TLS_CERT and TLS_KEY, REST, git, pages and printed URLs are https', async (t) => {
  const { cert, key, ca } = await files(t.testdir())
  const server = await startTestServer(t, { TLS_CERT: cert, TLS_KEY: key })
  t.match(server.url, /^https:\/\/127\.0\.0\.1:\d+$/)
  const { status, headers } = await get(`${server.url}/healthz`)
  t.equal(status, 200)
  t.equal(headers['strict-transport-security'], 'max-age=31536000')

  const json = { authorization: basic('alice'), 'content-type': 'application/json' }
  const post = httpRequest(`${server.url}/api/v1/user/repos`, {
    method: 'POST',
    rejectUnauthorized: false,
    headers: { ...json, origin: server.url },
  })
  post.end(JSON.stringify({ name: 'r', auto_init: true }))
  const [made] = await once(post, 'response')
  t.equal(made.statusCode, 201, 'a page of this server may change things')
  t.match(JSON.parse(await text(made)).clone_url, `${server.url}/alice/r.git`)
  const foreign = { ...json, origin: server.url.replace('https:', 'http:'), 'sec-fetch-site': 'same-site' }
  const refused = await get(`${server.url}/api/v1/user/repos`, { method: 'POST', headers: foreign })
  t.equal(refused.status, 403, 'the same host without TLS is another site')

  const dir = join(t.testdirName, 'clone')
  const url = server.url.replace('https://', `https://alice:${encodeURIComponent(passwordOf('alice'))}@`)
  await gitIn(t.testdirName, ['-c', `http.sslCAInfo=${ca}`, 'clone', '-q', `${url}/alice/r.git`, dir])
  t.match(await gitIn(dir, ['log', '--format=%s']), /Initial commit/i)

  const port = Number(new URL(server.url).port)
  const plain = connect(port, '127.0.0.1')
  plain.on('error', () => {})
  plain.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
  t.notMatch(await text(plain), /HTTP\/1.1/, 'who does not speak TLS gets no answer')
  t.equal((await get(`${server.url}/healthz`)).status, 200)
})

t.test('the start fails for unusable files of HTTP, and names the setting', async (t) => {
  const dir = t.testdir({ garbage: 'no PEM at all' })
  const one = await files(join(dir, 'one'))
  const other = await files(join(dir, 'other'))
  const cases = [
    [{ TLS_CERT: join(dir, 'missing'), TLS_KEY: one.key }, 'TLS_CERT', /cannot be read: ENOENT/],
    [{ TLS_CERT: join(dir, 'garbage'), TLS_KEY: one.key }, 'TLS_CERT', /is not a certificate/],
    [{ TLS_CERT: one.cert, TLS_KEY: join(dir, 'garbage') }, 'TLS_KEY', /is not a private key/],
    [{ TLS_CERT: one.cert, TLS_KEY: other.key }, 'TLS_KEY', /is not the key of the certificate in TLS_CERT/],
  ] as const
  for (const [settings, setting, message] of cases) {
    const error = await requireCertificate(loadConfig(settings)).catch((problem: unknown) => problem)
    t.ok(error instanceof ConfigError, `${message}`)
    t.match(error, { setting, message })
    t.notMatch(error, { message: /\n/ })
  }
  t.equal(await requireCertificate(loadConfig({})), undefined)
})

/** An app with TLS that listens; `limits` as for connections. */
async function secureApp(t: Test, perNetwork: number, timeoutMs: number, everyMs = 3_600_000) {
  const paths = await files(t.testdir())
  const certificate = await requireCertificate(loadConfig({ TLS_CERT: paths.cert, TLS_KEY: paths.key }))
  if (certificate === undefined) throw new Error('it is set')
  const lines: string[] = []
  const log = pino({}, { write: (line: string) => void lines.push(line) })
  const app = Fastify({
    serverFactory: httpsServer(certificate, timeoutMs),
    clientErrorHandler: refuseUnreadable(() => ''),
  })
  limitConnections(app, { all: 100, perNetwork }, () => false, new AbortController().signal)
  renewHttps(app, certificate, log, everyMs)
  app.get('/', async () => 'here')
  const address = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  t.teardown(() => app.close())
  const connections = () =>
    new Promise<number>((resolve) => app.server.getConnections((_, count) => resolve(count)))
  return { url: `https://${address.host}/`, port: Number(address.port), paths, lines, connections, app }
}

t.test(
  'connections count before their handshake, and the connection that is idle longest is evicted',
  async (t) => {
    const { url, port, connections } = await secureApp(t, 3, 3_600_000)
    const mute = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')]
    for (const socket of mute) socket.on('error', () => {})
    await until('both are there', async () => (await connections()) === 2)
    const one = await opened(port)
    await until('three are there', async () => (await connections()) === 3)
    t.equal((await get(url)).body, 'here', 'a fourth ends the first')
    await until('the first is gone', () => mute[0]?.closed === true)
    t.equal(one.destroyed, false)
    one.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    t.match(await text(one), /here$/)
    for (const socket of mute) socket.destroy()
    await until('all places are given back', async () => (await connections()) === 0)
    const again = await Promise.all([opened(port), opened(port), opened(port)])
    t.ok(again.every(({ destroyed }) => !destroyed))
    for (const socket of again) socket.destroy()
  },
)

t.test('a handshake has the deadline of a header, and a failing one ends only its connection', async (t) => {
  const { url, port } = await secureApp(t, 10, 200)
  const slow = connect(port, '127.0.0.1')
  slow.on('error', () => {})
  slow.write(Buffer.from([0x16, 0x03, 0x01]))
  await once(slow, 'close')
  const wrong = connect(port, '127.0.0.1')
  wrong.on('error', () => {})
  wrong.write('not a handshake at all')
  wrong.resume()
  await once(wrong, 'close')
  const head = await opened(port)
  head.write('GET / HTTP/1.1\r\n')
  t.match(await text(head), /^HTTP\/1.1 408 /)
  t.equal((await get(url)).status, 200)
})

t.test(
  'a renewed certificate applies to new connections; open ones continue, unusable files change nothing',
  async (t) => {
    const { url, port, paths, lines } = await secureApp(t, 10, 60_000, 20)
    const fingerprint = async () => {
      const socket = await opened(port)
      const { fingerprint256 } = socket.getPeerCertificate()
      socket.destroy()
      return fingerprint256
    }
    const before = await fingerprint()
    const agent = new Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false })
    t.teardown(() => agent.destroy())
    t.equal((await get(url, { agent })).body, 'here')

    const next = certificateFor(join(t.testdirName, 'next'), 'IP:127.0.0.1')
    // First only the certificate: it does not fit the old key.
    await writeFile(`${paths.cert}.new`, next.certificate)
    await rename(`${paths.cert}.new`, paths.cert)
    await until('the log says so', () => lines.some((line) => /TLS_KEY is not the key/.test(line)))
    t.equal(await fingerprint(), before)
    await writeFile(paths.key, next.key)
    await until('it is used', async () => (await fingerprint()) !== before)
    t.equal(lines.filter((line) => /is not the key/.test(line)).length, 1, 'a problem is logged once')
    t.equal((await get(url, { agent })).body, 'here', 'on the connection from before')
  },
)

t.test('a port in use stops the start of a server with TLS, too', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const { cert, key } = await files(t.testdir())
  const { port }: AddressInfo = Object(taken.address())
  await t.rejects(startTestServer(t, { TLS_CERT: cert, TLS_KEY: key, PORT: `${port}` }), {
    message: `PORT is "${port}", but another program listens on 127.0.0.1:${port}: stop it, or set PORT to a free port`,
  })
})
