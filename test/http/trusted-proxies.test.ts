import t from 'tap'
import { addressesIn, networkOf, rangesAround } from '../../src/config/address-ranges.ts'
import { basic } from '../server-template.ts'
import { startTestServer, type TestServer } from '../start-server.ts'

/** The status of a sign-in of alice with these forwarded addresses. */
async function signIn(server: TestServer, forwardedFor: string, password: string): Promise<number> {
  const authorization = `Basic ${Buffer.from(`alice:${password}`).toString('base64')}`
  const answer = await fetch(`${server.url}/api/v1/user`, {
    headers: { authorization, 'x-forwarded-for': forwardedFor },
  })
  return answer.status
}

t.test('TRUST_PROXY: behind a proxy each client is counted alone; a forged entry is ignored', async (t) => {
  const server = await startTestServer(t, { TRUST_PROXY: 'loopback, 10.0.0.0/8' })
  for (let i = 0; i < 10; i++) {
    t.equal(await signIn(server, `203.0.113.${i}, 198.51.100.1, 10.1.1.${i}`, `wrong ${i}`), 401)
  }
  t.equal(await signIn(server, '203.0.113.77, 198.51.100.1', 'wrong'), 429, 'the same client')
  t.equal(await signIn(server, '198.51.100.1', 'wrong'), 429)
  t.equal(await signIn(server, '198.51.100.1, 198.51.100.2', 'wrong'), 401, 'another client')
  t.equal(await signIn(server, '198.51.100.1, 2001:db8::1', 'wrong'), 401)
  t.equal(
    await signIn(server, '198.51.100.1', 'password of alice'),
    200,
    'the right password is not locked out',
  )
  t.equal(await signIn(server, '198.51.100.3', 'password of alice'), 200)
})

t.test('without TRUST_PROXY, X-Forwarded-For and similar headers are ignored', async (t) => {
  const server = await startTestServer(t)
  for (let i = 0; i < 10; i++) t.equal(await signIn(server, `203.0.113.${i}`, `wrong ${i}`), 401)
  t.equal(await signIn(server, '203.0.113.99', 'wrong'), 429)
  const invented = {
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'https',
    authorization: basic('alice'),
  }
  const answer = await fetch(`${server.url}/api/v1/user/repos`, { headers: invented })
  t.match(answer.headers.get('link'), `<${server.url}/api/v1/user/repos>; rel="first"`)
})

t.test('a client is an IPv4 address, or the first 64 bits of an IPv6 address', async (t) => {
  const cases: [string, string][] = [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['192.0.2.1:4711', '192.0.2.1'],
    ['[2001:db8::1]:4711', '2001:db8:0:0::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:DB8:0:0:9:9:9:9', '2001:db8:0:0::/64'],
    ['2001:db8:1:2:3::', '2001:db8:1:2::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
    ['garbage', 'unknown'],
    ['', 'unknown'],
  ]
  for (const [address, network] of cases) t.equal(networkOf(address), network, address)
})

t.test('the ranges around a client are those that one owner may hold as a whole', async (t) => {
  const around = (address: string) => rangesAround(networkOf(address))
  t.strictSame(around('192.0.2.77'), ['192.0.2.0/24'])
  t.strictSame(around('2001:db8:1:2::9'), ['2001:db8:1::/48', '2001:db8::/32'])
  t.strictSame(around('::1'), ['0:0:0::/48', '0:0::/32'])
  t.strictSame(around('garbage'), [])
})

t.test('ranges of addresses have names, masks and both families', async (t) => {
  const isIn = (entries: string[], address: string) => addressesIn(entries)?.(address)
  t.ok(isIn(['loopback'], '127.9.9.9'))
  t.ok(isIn(['loopback'], '::1'))
  t.ok(isIn(['loopback'], '::ffff:127.0.0.1'))
  t.ok(isIn(['UniqueLocal'], '172.31.0.1'))
  t.ok(isIn(['linklocal'], 'fe80::1'))
  t.ok(isIn(['192.0.2.7', '10.0.0.0/8'], '10.255.0.1'))
  t.ok(isIn(['2001:db8::/32'], '2001:db8:ffff::1'))
  for (const outside of ['192.0.2.8', '11.0.0.0', '::1', 'x', ''])
    t.notOk(isIn(['192.0.2.7', '10.0.0.0/8'], outside))
  for (const entry of ['', 'x', '1.2.3', '1.2.3.4/33', '::/129', 'fe80::1%eth0', '1.2.3.4/-1']) {
    t.equal(addressesIn([entry]), undefined, entry)
  }
})
