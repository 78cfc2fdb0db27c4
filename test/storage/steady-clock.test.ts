import t from 'tap'
import { recordNow, steadyClock } from '../../src/storage/steady-clock.ts'

t.test('a moment is the earlier of two: by the clock as it was, and as it is now', async (t) => {
  let clock = 5000
  let passed = 0
  const begun = recordNow(
    () => clock,
    () => passed,
  )
  const pass = (ms: number) => {
    clock += ms
    passed += ms
  }
  pass(10)
  t.equal(begun(), 5000)
  clock += 1000
  t.equal(begun(), 5000, 'the clock was set forward')
  clock -= 4000
  pass(10)
  t.equal(begun(), 2000, 'the clock was set back')
})

t.test(
  'a clock that is never ahead continues when the clock is set forward, and follows it back',
  async (t) => {
    let clock = 5000
    let passed = 100
    const now = steadyClock(
      () => clock,
      () => passed,
    )
    const pass = (ms: number) => {
      clock += ms
      passed += ms
    }
    pass(10)
    t.equal(now(), 5010)
    clock += 1000
    pass(10)
    t.equal(now(), 5020, 'the clock was set forward')
    clock -= 4000
    pass(10)
    t.equal(now(), 2030, 'the clock was set back')
    clock += 4000
    t.equal(now(), 5030)
  },
)
