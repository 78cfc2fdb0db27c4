import t from 'tap'
import { createSlots, inTurn } from '../src/turns.ts'

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
