// In a process of its own: it measures the memory.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { createAnswerCache } from '../../../src/git/process/answer-cache.ts'

/** Work that the test ends, and its signal. */
function work() {
  let signal: AbortSignal | undefined
  let finish = (_answer: { value: number }) => {}
  const answer = new Promise<{ value: number }>((resolve) => {
    finish = resolve
  })
  const ask = async (given: AbortSignal) => {
    signal = given
    return await answer
  }
  return { ask, finish, isUnwanted: () => signal?.aborted }
}

t.test(
  'line 2: a disconnected client aborts its work, unless another client waits for the same',
  async (t) => {
    const answers = createAnswerCache<{ value: number }>(100, () => 1)
    const { ask, finish, isUnwanted } = work()
    const [first, second] = [new AbortController(), new AbortController()]
    const one = answers('key', ask, first.signal)
    const two = answers('key', ask, second.signal)
    first.abort(new Error('gone'))
    await t.rejects(one, { message: 'gone' })
    t.equal(isUnwanted(), false)
    const third = answers('key', ask)
    second.abort(new Error('gone too'))
    await t.rejects(two, { message: 'gone too' })
    t.equal(isUnwanted(), false, 'a caller without a signal always waits')
    finish({ value: 1 })
    t.same(await third, { value: 1 })
    t.same(await answers('key', () => Promise.reject(new Error('not asked again'))), { value: 1 })

    const alone = work()
    const only = new AbortController()
    const asked = answers('other', alone.ask, only.signal)
    only.abort(new Error('gone'))
    await t.rejects(asked, { message: 'gone' })
    t.equal(alone.isUnwanted(), true)
    t.same(await answers('other', async () => ({ value: 2 })), { value: 2 }, 'the next one asks anew')
  },
)

t.test('an error reaches all callers, and is not cached', async (t) => {
  const answers = createAnswerCache<{ value: number }>(100, () => 1)
  const fail = () => Promise.reject(new Error('no'))
  await Promise.all(
    [answers('key', fail), answers('key', fail)].map((asked) => t.rejects(asked, { message: 'no' })),
  )
  t.same(await answers('key', async () => ({ value: 3 })), { value: 3 })
})

t.test("the client's text in a key does not stay in memory, however long it is", async (t) => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const answers = createAnswerCache<{ value: number }>(10_000, () => 1)
  const pathOf = (i: number) => `${i} `.repeat(20_000).slice(0, 100_000)
  collect()
  const before = process.memoryUsage().heapUsed
  for (let i = 10_000; i < 10_500; i++) {
    t.same(await answers(Buffer.from(pathOf(i)).toString('latin1'), async () => ({ value: i })), { value: i })
  }
  collect()
  const grown = process.memoryUsage().heapUsed - before
  t.ok(grown < 20_000_000, `fifty megabytes were asked for, ${grown} bytes are kept`)
  t.same(await answers(pathOf(10_007), () => Promise.reject(new Error('asked again'))), { value: 10_007 })
})
