import t from 'tap'
import { createGuessers } from '../../../src/auth/passwords/guessers.ts'

/** Creates a counter of guessers with a limit of two failures, and a function to add failures. */
function setup() {
  let now = 1000
  const guessers = createGuessers({ failures: 2, windowMs: 10_000 }, () => now)
  const fail = (network: string, times = 2) => {
    for (let i = 0; i < times; i++) guessers.attempt(network)
  }
  const pass = (ms: number) => {
    now += ms
  }
  return { guessers, fail, pass }
}

t.test('one guesser alone does not affect the networks around it', async (t) => {
  const { guessers, fail } = setup()
  fail('192.0.2.1', 1)
  t.equal(guessers.with('192.0.2.1'), undefined)
  fail('192.0.2.1', 1000)
  fail('2001:db8:1:2::/64', 1000)
  t.equal(guessers.with('192.0.2.1'), '192.0.2.1')
  t.equal(guessers.with('192.0.2.2'), undefined)
  t.equal(guessers.with('2001:db8:1:2::/64'), '2001:db8:1:2::/64')
  t.equal(guessers.with('2001:db8:1:3::/64'), undefined)
})

t.test(
  'sixteen guessers in one range count as one, with all networks of the range, for a while',
  async (t) => {
    const { guessers, fail, pass } = setup()
    for (let i = 0; i < 15; i++) for (const network of [`192.0.2.${i}`, `2001:db8:1:${i}::/64`]) fail(network)
    t.equal(guessers.with('192.0.2.200'), undefined)
    t.equal(guessers.with('2001:db8:1:ffff::/64'), undefined)
    fail('192.0.2.99')
    fail('2001:db8:1:99::/64')
    t.equal(guessers.with('192.0.2.200'), '192.0.2.0/24')
    t.equal(guessers.with('192.0.3.200'), undefined)
    t.equal(guessers.with('2001:db8:1:ffff::/64'), '2001:db8:1::/48')
    t.equal(guessers.with('2001:db8:2:ffff::/64'), undefined)
    pass(10_000)
    t.equal(guessers.with('192.0.2.200'), undefined)
  },
)

t.test('an owner of 65,536 networks in a /48 cannot turn the /32 around it into a guesser', async (t) => {
  const { guessers, fail } = setup()
  for (let i = 0; i < 65_536; i++) fail(`2001:db8:1:${i.toString(16)}::/64`)
  t.equal(guessers.with('2001:db8:1:0::/64'), '2001:db8:1::/48')
  t.equal(guessers.with('2001:db8:2:0::/64'), undefined)
  for (let i = 2; i < 17; i++) for (let j = 0; j < 16; j++) fail(`2001:db8:${i}:${j}::/64`)
  t.equal(guessers.with('2001:db8:ff:0::/64'), '2001:db8::/32', 'sixteen such /48 can')
})

t.test('a successful attempt is not a failure of any range', async (t) => {
  const { guessers } = setup()
  const forgive = Array.from({ length: 100 }, (_, i) => guessers.attempt(`192.0.2.${i}`))
  t.equal(guessers.with('192.0.2.200'), '192.0.2.0/24', 'while nobody knows')
  for (const undo of forgive) undo()
  t.equal(guessers.with('192.0.2.200'), undefined)
})
