import t from 'tap'
import { createKeyedMutex } from '../../src/concurrency/keyed-mutex.ts'

t.test('work with one key runs one at a time and in order, also after a failure', async (t) => {
  const runExclusive = createKeyedMutex()
  const log: string[] = []
  const step = (name: string, fails = false) =>
    runExclusive('repository', async () => {
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

t.test('when work fails in a store outage, all queued work fails with the same error', async (t) => {
  const away = new Error('the store does not answer')
  const runExclusive = createKeyedMutex(undefined, (error) => error === away)
  const begun: string[] = []
  let fail = (_error: Error) => {}
  const first = runExclusive('issue', () => {
    begun.push('first')
    return new Promise<void>((_, reject) => {
      fail = reject
    })
  })
  const step = (key: string, name: string): Promise<string> =>
    runExclusive(key, async () => {
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

  const refused = runExclusive('issue', () => Promise.reject(new Error('refused')))
  const next = step('issue', 'next')
  await t.rejects(refused, { message: 'refused' })
  t.equal(await next, 'next', 'any other failure is that of one alone')
})
