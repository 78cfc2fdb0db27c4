// In a process of its own: it sets the clock a year ahead.
import t from 'tap'
import { createPace, createThrottle, createThrottledChecks } from '../../../src/auth/passwords/throttle.ts'
import { clockOf, YEAR_MS } from '../../set-clock.ts'

t.test('after too many failures only that key is blocked, until the window ends', async (t) => {
  let now = 1000
  const throttle = createThrottle({ failures: 2, windowMs: 10_000 }, () => now)
  throttle.attempt('a')
  t.equal(throttle.blockedFor('a'), undefined)
  now += 4500
  throttle.attempt('a')
  t.equal(throttle.blockedFor('a'), 6)
  t.equal(throttle.blockedFor('b'), undefined)
  now += 5499
  t.equal(throttle.blockedFor('a'), 1)
  now += 1
  t.equal(throttle.blockedFor('a'), undefined)
  throttle.attempt('a')
  t.equal(throttle.blockedFor('a'), undefined, 'counting starts again')
})

t.test('a lockout ends in time, even if the clock is set back meanwhile', async (t) => {
  const setClock = clockOf(t)
  setClock(YEAR_MS)
  const throttle = createThrottle({ failures: 1, windowMs: 10_000 })
  throttle.attempt('a')
  setClock(0)
  t.ok((throttle.blockedFor('a') ?? 0) <= 10)
})

t.test('an attempt counts as a failure until it succeeds', async (t) => {
  const throttle = createThrottle({ failures: 1, windowMs: 10_000 })
  const forgive = throttle.attempt('a')
  t.type(throttle.blockedFor('a'), 'number')
  forgive()
  t.equal(throttle.blockedFor('a'), undefined)
})

t.test('slots are handed out one at a time, and a new attempt replaces a random waiting one', async (t) => {
  const pace = createPace({ everyMs: 1, waiting: 2 }, () => 0)
  const answers: string[] = []
  const ask = async (name: string, key = 'a') => {
    answers.push(`${name} ${(await pace.slot(key)) ? 'goes' : 'leaves'}`)
  }
  await Promise.all([ask('first'), ask('second'), ask('third'), ask('fourth'), ask('other', 'b')])
  const first = answers.splice(0, 3).sort()
  t.strictSame(first, ['first goes', 'other goes', 'second leaves'])
  t.strictSame(answers, ['third goes', 'fourth goes'])
  await ask('fifth')
  t.equal(answers.at(-1), 'fifth goes')
})

t.test(
  'failed checks take at most a fifth of the time; keys alternate, and a successful check adds no pause',
  async (t) => {
    let now = 0
    const rests: { ms: number; end: () => void }[] = []
    const checks = createThrottledChecks(
      { name: 'password_checks', waiting: 8, waitingShare: 2 },
      () => now,
      (end, ms) => rests.push({ ms, end }),
    )
    const done: string[] = []
    const ask = (key: string, { took = 100, isGood = false } = {}) =>
      checks(key, async () => {
        now += took
        done.push(key)
        if (took > 250) throw new RangeError('not checked')
        return isGood
      })
    const first = ask('a')
    const second = ask('a', { isGood: true })
    const third = ask('a', { took: 300 })
    const other = ask('b')
    await t.rejects(
      ask('a'),
      { message: 'this client has too many requests at once' },
      'more than its share waits',
    )
    t.equal(await first, false)
    t.strictSame(done, ['a'], 'its caller does not wait for the rest after it')
    rests.at(-1)?.end()
    t.equal(await second, true)
    t.equal(await other, false, 'at once after a good one')
    t.strictSame(done, ['a', 'a', 'b'])
    rests.at(-1)?.end()
    await t.rejects(third, RangeError)
    t.strictSame(
      rests.map(({ ms }) => ms),
      [400, 400, 1000],
    )
  },
)
