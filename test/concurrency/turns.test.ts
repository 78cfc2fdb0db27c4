import t from 'tap'
import { createSlots, createTurns } from '../../src/concurrency/turns.ts'

t.test('at most the given number run at the same time, and waiters go in order', async (t) => {
  const slots = createSlots(2)
  let running = 0
  let most = 0
  const order: number[] = []
  const work = async (i: number) => {
    const release = await slots.take()
    running += 1
    most = Math.max(most, running)
    order.push(i)
    await new Promise((resolve) => setImmediate(resolve))
    running -= 1
    release()
    release()
  }
  await Promise.all(Array.from({ length: 20 }, (_, i) => work(i)))
  t.equal(most, 2, 'releasing twice frees one slot')
  t.same(
    order,
    Array.from({ length: 20 }, (_, i) => i),
  )
})

t.test('a waiter that gives up leaves the queue and takes no slot', async (t) => {
  const slots = createSlots(1)
  const release = await slots.take()
  const givingUp = new AbortController()
  const gaveUp = t.rejects(slots.take(givingUp.signal), { message: 'enough' })
  const second = slots.take()
  givingUp.abort(new Error('enough'))
  await gaveUp
  release()
  const releaseSecond = await second
  releaseSecond()
  await t.rejects(slots.take(AbortSignal.abort(new Error('before'))), { message: 'before' })
  const releaseThird = await slots.take()
  releaseThird()
})

t.test('work with one key runs one at a time and in order, also after a failure', async (t) => {
  const inTurn = createTurns()
  const log: string[] = []
  const step = (name: string, fails = false) =>
    inTurn('repository', async () => {
      log.push(`${name} begins`)
      await new Promise((resolve) => setImmediate(resolve))
      log.push(`${name} ends`)
      if (fails) throw new Error(name)
      return name
    })
  const results = await Promise.allSettled([step('a'), step('b', true), step('c')])
  t.same(
    results.map((result) => result.status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
  t.same(log, ['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
})

t.test(
  'when work fails because a store stands still, all who wait for their turn then fail with it',
  async (t) => {
    const away = new Error('the store does not answer')
    const inTurn = createTurns(undefined, (error) => error === away)
    const begun: string[] = []
    let fail = (_error: Error) => {}
    const first = inTurn('issue', () => {
      begun.push('first')
      return new Promise<void>((_, reject) => {
        fail = reject
      })
    })
    const step = (key: string, name: string): Promise<string> =>
      inTurn(key, async () => {
        begun.push(name)
        return name
      })
    const waiting = [step('issue', 'second'), step('issue', 'third')]
    const elsewhere = step('another issue', 'elsewhere')
    fail(away)
    await t.rejects(first, away)
    await Promise.all(waiting.map((one) => t.rejects(one, away)))
    t.equal(await elsewhere, 'elsewhere')
    t.equal(await step('issue', 'later'), 'later', 'who comes afterwards tries again')
    t.strictSame(begun, ['first', 'elsewhere', 'later'])

    const refused = inTurn('issue', () => Promise.reject(new Error('refused')))
    const next = step('issue', 'next')
    await t.rejects(refused, { message: 'refused' })
    t.equal(await next, 'next', 'any other failure is that of one alone')
  },
)
