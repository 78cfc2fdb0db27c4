import t from 'tap'
import { createThrottle } from '../../src/rights/throttle.ts'

t.test('after so many failures a key waits until the window ends, and others do not', async (t) => {
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
  t.equal(throttle.blockedFor('a'), undefined, 'counting begins again')
})

t.test('an attempt counts while its outcome is not known, and not when it succeeded', async (t) => {
  const throttle = createThrottle({ failures: 1, windowMs: 10_000 })
  const forgive = throttle.attempt('a')
  t.type(throttle.blockedFor('a'), 'number')
  forgive()
  t.equal(throttle.blockedFor('a'), undefined)
})
