import t from 'tap'
import { untilIdle } from '../../src/processes/idle-time.ts'

t.test('idle work begins when the event loop is busy for less than half of the time', async (t) => {
  const used = [1, 0.9, 0.5, 0.49, 0]
  await untilIdle(new AbortController().signal, 60_000, async () => used.shift() ?? 0)
  t.same(used, [0])
})

t.test('it does not wait for ever, and not after the server has stopped', async (t) => {
  const stopping = new AbortController()
  let asked = 0
  const busy = async () => {
    asked += 1
    return 1
  }
  await untilIdle(stopping.signal, 0, busy)
  t.equal(asked, 0, 'its time is over')
  const stops = async () => {
    stopping.abort()
    return busy()
  }
  await untilIdle(stopping.signal, 60_000, stops)
  t.equal(asked, 1)
})

t.test('an event loop without work is idle', async (t) => {
  await untilIdle(new AbortController().signal, 60_000)
  t.pass('resolved')
})
