/** Look-ups of hostile names, and of names with broken name servers. */
import t from 'tap'
import { byDns, bySystem } from '../../../src/http/outbound/host-lookup.ts'
import { startNameServer } from '../../doubles/name-server.ts'
import { until } from '../../until.ts'

const never = new AbortController().signal

t.test('of a name with thousands of addresses, only the first few of each kind count', async (t) => {
  const server = await startNameServer(t, (_, kind) =>
    kind === 'A'
      ? Array.from({ length: 3900 }, (_, n) => Uint8Array.of(8, 8, n >> 8, n & 255))
      : Array.from({ length: 2000 }, (_, n) =>
          Uint8Array.of(0x26, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n >> 8, n & 255),
        ),
  )
  const found = await byDns([server])('many.example', never)
  t.equal(found.length, 16)
  t.same(found.slice(0, 2), ['8.8.0.0', '8.8.0.1'])
  t.same(found.slice(8, 10), ['2600::', '2600::1'])
})

t.test('a name server that does not answer for IPv6 does not block IPv4', async (t) => {
  const ends = AbortSignal.timeout(5000)
  const server = await startNameServer(t, (name, kind) => {
    if (kind === 'A') return [Uint8Array.of(8, 8, 8, 8)]
    return name === 'half.example' ? undefined : []
  })
  t.same(await byDns([server])('half.example', ends), ['8.8.8.8'])
  t.equal(ends.aborted, false, 'before a delivery is over')
  t.same(await byDns([server])('without.example', ends), ['8.8.8.8'])
})

t.test('a hanging look-up is aborted with its request', async (t) => {
  const gone = new AbortController()
  const server = await startNameServer(t, () => {
    gone.abort()
    return undefined
  })
  await t.rejects(byDns([server])('silent.example', gone.signal), { code: 'ECANCELLED' })
  await t.rejects(byDns([server])('silent.example', gone.signal), { name: 'AbortError' })
})

t.test('look-ups by the system share one thread, also after their callers have left', async (t) => {
  const begun: { host: string; end(): void }[] = []
  const resolve = bySystem(
    (host) =>
      new Promise((answer) => {
        begun.push({ host, end: () => answer([{ address: '8.8.8.8' }]) })
      }),
  )
  const gone = new AbortController()
  const left = ['one', 'two', 'three'].map((host) => resolve(host, gone.signal))
  const last = resolve('last', never)
  await until('a look-up has begun', () => begun.length > 0)
  gone.abort()
  await Promise.all(left.map((each) => t.rejects(each, { name: 'AbortError' })))
  t.equal(begun.length, 1, 'the first one still has its thread')
  begun[0]?.end()
  await until('the next one has begun', () => begun.length === 2)
  begun[1]?.end()
  t.same(await last, ['8.8.8.8'])
  t.same(
    begun.map(({ host }) => host),
    ['one', 'last'],
    'those that left are not looked up',
  )
})
