import t from 'tap'
import { coalesce, nextRun } from '../../src/concurrency/coalesce.ts'

/** Work whose runs the test ends. */
function runs() {
  const begun: { end: (value: string) => void; fail: (error: Error) => void; unwanted: AbortSignal }[] = []
  const work = (unwanted = new AbortController().signal) =>
    new Promise<string>((end, fail) => begun.push({ end, fail, unwanted }))
  return { begun, work }
}

t.test('concurrent callers of a key share one run, and its error', async (t) => {
  const { begun, work } = runs()
  const share = coalesce<string>()
  const [one, two, other] = [share('a', work), share('a', work), share('b', work)]
  t.equal(begun.length, 2)
  begun[0]?.end('first')
  t.strictSame(await Promise.all([one, two]), ['first', 'first'])
  const again = [share('a', work), share('a', work)]
  begun[1]?.end('other')
  begun[2]?.fail(new Error('no'))
  t.equal(await other, 'other')
  await Promise.all(again.map((each) => t.rejects(each, { message: 'no' })))
})

t.test('a run is aborted when all callers have left, and a later caller starts another one', async (t) => {
  const { begun, work } = runs()
  const share = coalesce<string>()
  const [first, second] = [new AbortController(), new AbortController()]
  const one = share('a', work, first.signal)
  const other = share('a', work, second.signal)
  first.abort(new Error('gone'))
  await t.rejects(one, { message: 'gone' })
  t.notOk(begun[0]?.unwanted.aborted)
  second.abort(new Error('gone'))
  await t.rejects(other, { message: 'gone' })
  t.ok(begun[0]?.unwanted.aborted)
  await t.rejects(share('a', work, first.signal), { message: 'gone' })
  const later = share('a', work)
  begun[0]?.end('unwanted')
  begun[1]?.end('new')
  t.equal(await later, 'new')
})

t.test('nextRun starts after the call, and one runs at a time', async (t) => {
  const { begun, work } = runs()
  const run = nextRun(() => work())
  const first = run()
  const next = [run(), run()]
  t.equal(begun.length, 1)
  begun[0]?.fail(new Error('no'))
  await t.rejects(first, { message: 'no' })
  t.equal(begun.length, 2)
  begun[1]?.end('next')
  t.strictSame(await Promise.all(next), ['next', 'next'])
})
