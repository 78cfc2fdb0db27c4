// In a process of its own: it changes what hashes cost.
import t from 'tap'
import { basic, identityApp, passwordOf } from './identity-app.ts'

const OFTEN = { failures: 1_000_000, windowMs: 60_000 }
/** After its first failure, checks for a network are followed by pauses, in a short queue. */
const limits = {
  perName: OFTEN,
  perAddress: OFTEN,
  beforePauses: { failures: 1, windowMs: 60_000 },
  waitingWithPauses: 6,
  afterwards: { everyMs: 1, waiting: 20 },
}
const right = basic('alice', passwordOf('alice'))

async function setup(test: Parameters<typeof identityApp>[0]) {
  const { call, signUp } = await identityApp(test, { limits })
  await signUp('alice')
  const signIn = async (as: string, ip: string) => (await call('GET', '/user', { as, ip })).status
  let guesses = 0
  const guess = (ip: string) => signIn(basic('alice', `guess ${guesses++}`), ip)
  return { signIn, guess }
}

t.test(
  'while guesses from many networks fill the queue, a correct password from another network with failures succeeds',
  async (t) => {
    const { signIn, guess } = await setup(t)
    const attackers = ['192.0.2.1', '198.51.100.1', '2001:db8:0:1::1', '2001:db8:1:1::1']
    const honest = '203.0.113.1'
    const fresh = '203.0.113.200'
    for (const ip of [...attackers, honest]) t.equal(await guess(ip), 401, ip)

    const flood = attackers.flatMap((ip) => Array.from({ length: 20 }, () => guess(ip)))
    const own = signIn(right, honest)
    const other = guess(fresh)
    t.equal(await own, 200)
    t.equal(await other, 401, 'who has not failed does not wait in that line')
    const statuses = await Promise.all(flood)
    t.ok(statuses.includes(429), 'the line was full')
    t.same([...new Set(statuses)].sort(), [401, 429])
  },
)

t.test(
  'many networks in one range share the slots of one, and a correct password from there succeeds',
  async (t) => {
    const { signIn, guess } = await setup(t)
    const attacker = (i: number) => `2001:db8:7:${i.toString(16)}::1`
    const honest = '203.0.113.1'
    t.equal(await guess(honest), 401)
    for (let i = 0; i < 16; i++) t.equal(await guess(attacker(i)), 401)

    const flood = Array.from({ length: 80 }, (_, i) => guess(attacker(16 + i)))
    t.equal(await signIn(right, honest), 200)
    const statuses = await Promise.all(flood)
    t.ok(statuses.includes(429), 'networks that have never failed are of that line')
    t.notOk(statuses.includes(503), 'none of them is told that the server is full')
  },
)
