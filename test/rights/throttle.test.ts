import t from 'tap'
import { createPace, createThrottle } from '../../src/rights/throttle.ts'

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
