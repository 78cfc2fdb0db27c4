import t from 'tap'
import { createDuty, createPace, createThrottle } from '../../src/rights/throttle.ts'

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

t.test('an attempt counts as a failure until it succeeds', async (t) => {
  const throttle = createThrottle({ failures: 1, windowMs: 10_000 })
  const forgive = throttle.attempt('a')
  t.type(throttle.blockedFor('a'), 'number')
  forgive()
  t.equal(throttle.blockedFor('a'), undefined)
})

t.test(
  'turns come one after the other, and a newcomer takes the place of a random one who waits',
  async (t) => {
    const pace = createPace({ everyMs: 1, waiting: 2 }, () => 0)
    const answers: string[] = []
    const ask = async (name: string, key = 'a') => {
      answers.push(`${name} ${(await pace.turn(key)) ? 'goes' : 'leaves'}`)
    }
    await Promise.all([ask('first'), ask('second'), ask('third'), ask('fourth'), ask('other', 'b')])
    const first = answers.splice(0, 3).sort()
    t.strictSame(first, ['first goes', 'other goes', 'second leaves'])
    t.strictSame(answers, ['third goes', 'fourth goes'])
    await ask('fifth')
    t.equal(answers.at(-1), 'fifth goes')
  },
)

t.test('work on duty takes a quarter of the time at most, and keys take turns', async (t) => {
  let now = 0
  let wake = () => {}
  const rests: number[] = []
  const duty = createDuty(
    { name: 'password_checks', waiting: 8, waitingShare: 2 },
    () => now,
    (next, ms) => {
      rests.push(ms)
      wake = next
    },
  )
  const done: string[] = []
  const ask = (key: string, took = 100) =>
    duty(key, async () => {
      now += took
      done.push(key)
      if (took > 400) throw new RangeError('too long')
    })
  const asked = [ask('a'), ask('a'), ask('a', 500), ask('b')]
  await t.rejects(
    ask('a'),
    { message: 'this client has too many requests at once' },
    'more than its share waits',
  )
  await asked[0]
  t.strictSame(done, ['a'], 'it does not wait for the rest after it')
  for (const end of [1, 3, 2]) {
    wake()
    await asked[end]?.catch((error: unknown) => t.type(error, RangeError))
  }
  t.strictSame(done, ['a', 'a', 'b', 'a'])
  t.strictSame(rests, [300, 300, 300, 1000])
})
