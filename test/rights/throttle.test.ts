import t from 'tap'
import { createThrottle } from '../../src/rights/throttle.ts'

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
