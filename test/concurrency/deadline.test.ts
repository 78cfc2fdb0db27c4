import { PassThrough } from 'node:stream'
import t from 'tap'
import { deadline, deadlineAfter } from '../../src/concurrency/deadline.ts'
import { paceBody } from '../../src/git/http/request-body.ts'
import { meteredOutput } from '../../src/git/process/metered-output.ts'
import { until } from '../until.ts'

/** More than the maximum of Node's timers: in milliseconds, and as bytes at one byte per second. */
const LONG_MS = 2 ** 31 + 1000
const LONG_BYTES = 3 * 1024 * 1024
const pace = { graceMs: 10, bytesPerSecond: 1 }

/** Waits until earlier timers that Node treats as short ones have ended. */
async function timersEnd(): Promise<void> {
  let ended = false
  setTimeout(() => {
    ended = true
  }, 20)
  await until('a timer that was set later has ended', () => ended)
}

t.test('a deadline beyond 2^31-1 ms does not fire immediately', async (t) => {
  const late: string[] = []
  t.teardown(deadlineAfter(LONG_MS, () => late.push('finite')))
  t.teardown(deadlineAfter(Number.POSITIVE_INFINITY, () => late.push('infinite')))
  await timersEnd()
  t.same(late, [])
})

t.test('a deadline fires once when its time is over, even if a timer could not wait that long', async (t) => {
  const rest = [5, 4, 4, 3, 3, 9, 9, 2, 0]
  let calls = 0
  const left = () => rest.shift() ?? -1
  deadline(
    left,
    () => {
      calls += 1
    },
    1,
  )
  await until('it comes', () => calls > 0)
  t.same(rest, [], 'not before the last question')
  await timersEnd()
  t.equal(calls, 1)
})

t.test('an ended deadline does not fire', async (t) => {
  deadlineAfter(1, () => t.fail('it came'))()
  await timersEnd()
})

t.test('a client that reads a large answer has time in proportion to its size', async (t) => {
  const late: unknown[] = []
  async function* output() {
    yield Buffer.alloc(LONG_BYTES)
    yield Buffer.from('end')
  }
  let size = 0
  for await (const chunk of meteredOutput(output(), { workMs: LONG_MS, pace }, (why) => late.push(why))) {
    size += chunk.length
    await timersEnd()
  }
  t.equal(size, LONG_BYTES + 3)
  t.same(late, [])
})

t.test('a client that sends a large body has time in proportion to its size', async (t) => {
  const source = new PassThrough()
  const body = paceBody(source, { ...pace, graceMs: LONG_MS })
  body.on('error', (error) => t.fail(error.message))
  source.write(Buffer.alloc(100))
  await timersEnd()
  t.equal(body.read()?.length, 100)
  source.end()
  body.resume()
  await until('it has ended', () => body.readableEnded)
})
