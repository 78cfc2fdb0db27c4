/** Allowed target addresses of webhooks. */
import { createServer } from 'node:http'
import { createServer as createServerOfSockets } from 'node:net'
import t from 'tap'
import { allowedHosts, isOutside, NO_HOSTS } from '../../../src/config/outside-addresses.ts'
import { createOutboundHttp, InternalAddress } from '../../../src/http/outbound/outbound-http.ts'
import { startReceiver } from './receiver.ts'

function allowing(entries: readonly string[]) {
  const allowed = allowedHosts(entries)
  if (allowed === undefined) throw new Error(`${entries} cannot be read`)
  return allowed
}

const post = (url: string, authorization?: string) => ({
  url: new URL(url),
  headers: { 'content-type': 'application/json' },
  body: '{}',
  authorization,
  signal: AbortSignal.timeout(60_000),
})

t.test("addresses of the server's own network are internal, in every notation", async (t) => {
  const inside = [
    '127.0.0.1',
    '127.9.9.9',
    '0.0.0.0',
    '10.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    'fe80::1',
    'fe80::1%eth0',
    'fc00::1',
    'fd12:3456::1',
    'ff02::1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '0:0:0:0:0:ffff:a9fe:a9fe',
    '::127.0.0.1',
    '64:ff9b::10.0.0.1',
    '64:ff9b:1::1',
    '2002:7f00:1::',
    '2001:0:1::1',
    '2001:db8::1',
    'localhost',
    '',
  ]
  t.same(inside.filter(isOutside), [])
  const outside = [
    '1.1.1.1',
    '172.32.0.1',
    '100.128.0.1',
    '::ffff:8.8.8.8',
    '64:ff9b::8.8.8.8',
    '2606:4700::1111',
  ]
  t.same(outside.filter(isOutside), outside)
})

t.test('an operator allows hosts by name, by address and by range', async (t) => {
  const allowed = allowing(['ci.internal', '*.build.internal', '10.1.0.0/16', 'loopback', '192.168.0.7'])
  const names = [
    'ci.internal',
    'CI.internal.',
    'a.build.internal',
    'build.internal',
    'xci.internal',
    'internal',
  ]
  t.same(names.filter(allowed.name), ['ci.internal', 'CI.internal.', 'a.build.internal'])
  const addresses = [
    '10.1.2.3',
    '10.2.0.1',
    '127.0.0.1',
    '::1',
    '::ffff:127.0.0.1',
    '192.168.0.7',
    '192.168.0.8',
  ]
  t.same(addresses.filter(allowed.address), [
    '10.1.2.3',
    '127.0.0.1',
    '::1',
    '::ffff:127.0.0.1',
    '192.168.0.7',
  ])
  for (const bad of ['', 'a b', 'http://x', '*', '*.', '10.0.0.0/40', '10.0.0']) {
    t.equal(allowedHosts([bad]), undefined, bad)
  }
})

t.test('a URL with an internal address is refused in every notation, and nothing is sent', async (t) => {
  const receiver = await startReceiver(t)
  const outside = createOutboundHttp(NO_HOSTS)
  const { port } = receiver
  const urls = [
    `http://127.0.0.1:${port}/`,
    `http://2130706433:${port}/`,
    `http://0x7f.1:${port}/`,
    `http://[::1]:${port}/`,
    `http://[::ffff:127.0.0.1]:${port}/`,
    `http://0.0.0.0:${port}/`,
    'http://169.254.169.254/latest/meta-data',
  ]
  for (const url of urls) {
    t.match(outside.problem(new URL(url)), /own network/, url)
    await t.rejects(outside.post(post(url)), InternalAddress, url)
  }
  await t.rejects(outside.post(post(`http://localhost:${port}/`)), InternalAddress)
  await t.rejects(outside.post(post(`http://a.localhost:${port}/`)), InternalAddress)
  t.same(receiver.at('/'), [])
})

t.test('a name is checked by its addresses at the time of use, and the connection goes there', async (t) => {
  const receiver = await startReceiver(t)
  const allowed = allowing(['127.0.0.1'])
  const answers = [['127.0.0.1'], ['10.0.0.1'], ['10.0.0.1', '127.0.0.1']]
  const asked: string[] = []
  const outside = createOutboundHttp(allowed, async (host) => {
    asked.push(host)
    return answers.shift() ?? []
  })
  const url = `http://ci.example.org:${receiver.port}/named`
  t.equal(await outside.post(post(url)), 200)
  await t.rejects(outside.post(post(url)), InternalAddress, 'the name is another address now')
  t.equal(await outside.post(post(url)), 200, 'of several, only those that may be used are')
  t.same(asked, ['ci.example.org', 'ci.example.org', 'ci.example.org'], 'asked once for each connection')
  t.equal(receiver.at('/named').length, 2)
  t.equal(receiver.at('/named')[0]?.headers.host, `ci.example.org:${receiver.port}`)
})

t.test('a redirect is checked like the first URL, and a header stays with its origin', async (t) => {
  const receiver = await startReceiver(t)
  const { port } = receiver
  const allowed = allowing(['one.example', 'two.example'])
  const outside = createOutboundHttp(allowed, async () => ['127.0.0.1'])
  const to = (location: string) =>
    receiver.answer('/', (response) => response.writeHead(307, { location }).end())
  to(`http://127.0.0.1:${port}/inside`)
  await t.rejects(outside.post(post(`http://one.example:${port}/`)), InternalAddress)
  to(`http://other.example:${port}/inside`)
  await t.rejects(outside.post(post(`http://one.example:${port}/`)), InternalAddress)
  t.same(receiver.at('/inside'), [])
  to('file:///etc/passwd')
  await t.rejects(outside.post(post(`http://one.example:${port}/`)), { name: 'BadRedirect' })
  to('/')
  await t.rejects(outside.post(post(`http://one.example:${port}/`)), { name: 'BadRedirect' })
  to('/same')
  t.equal(await outside.post(post(`http://one.example:${port}/`, 'Bearer x')), 200)
  t.equal(receiver.at('/same')[0]?.headers.authorization, 'Bearer x')
  to(`http://two.example:${port}/other`)
  t.equal(await outside.post(post(`http://one.example:${port}/`, 'Bearer x')), 200)
  t.equal(receiver.at('/other')[0]?.headers.authorization, undefined)
})

t.test('an endless answer is read up to a limit; a deadline ends a missing answer', async (t) => {
  const server = createServer((request, response) => {
    request.resume()
    if (request.url === '/silent') return
    const write = () => {
      while (response.write('x'.repeat(16 * 1024)));
      response.once('drain', write)
    }
    response.on('error', () => {})
    write()
  })
  await new Promise<void>((listening) => {
    server.listen(0, '127.0.0.1', () => listening())
  })
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  const base = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
  const allowed = allowing(['loopback'])
  const outside = createOutboundHttp(allowed)
  t.equal(await outside.post(post(`${base}/endless`)), 200)
  const signal = AbortSignal.timeout(50)
  await t.rejects(outside.post({ ...post(`${base}/silent`), signal }), { name: 'TimeoutError' })
})

/** A receiver that answers each request with these bytes only. Resolves to its URL. */
async function sayingOnly(test: Pick<typeof t, 'teardown'>, bytes: string): Promise<string> {
  const receiver = createServerOfSockets((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.write(bytes))
  })
  test.teardown(() => receiver.close())
  await new Promise<void>((listening) => receiver.listen(0, '127.0.0.1', () => listening()))
  const address = receiver.address()
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}/`
}

t.test('an answer in another protocol ends the request, like a missing one', async (t) => {
  const switching = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n'
  const outside = createOutboundHttp(allowing(['loopback']))
  await t.rejects(outside.post(post(await sayingOnly(t, switching))), { name: 'NoAnswer' })
})

t.test(
  'a receiver that endlessly announces its answer does not block the loop: the request ends',
  async (t) => {
    const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
    const outside = createOutboundHttp(allowing(['loopback']))
    await t.rejects(outside.post(post(await sayingOnly(t, hints.repeat(1000)))), { name: 'NoAnswer' })
    const answer = `${hints.repeat(3)}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`
    t.equal(await outside.post(post(await sayingOnly(t, answer))), 200, 'some are fine')
  },
)

t.test('an answer in chunks of one byte has the same read limit', async (t) => {
  const chunks = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\na\r\n'.repeat(20_000)}`
  const outside = createOutboundHttp(allowing(['loopback']))
  t.equal(await outside.post(post(await sayingOnly(t, chunks))), 200)
})
