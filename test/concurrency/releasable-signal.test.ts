import { getEventListeners } from 'node:events'
import t from 'tap'
import { releasableSignal } from '../../src/concurrency/releasable-signal.ts'

t.test(
  'a short signal is aborted with the longer one, with its reason, even if that was earlier',
  async (t) => {
    const longer = new AbortController()
    const before = releasableSignal(longer.signal)
    longer.abort('it is over')
    for (const { signal } of [before, releasableSignal(longer.signal)]) {
      t.ok(signal.aborted)
      t.equal(signal.reason, 'it is over')
    }
  },
)

t.test('aborting a short signal leaves the longer one unchanged', async (t) => {
  const longer = new AbortController()
  const one = releasableSignal(longer.signal)
  one.abort('enough')
  t.equal(one.signal.reason, 'enough')
  t.notOk(longer.signal.aborted)
})

t.test('a released short signal leaves no listener on the longer one', async (t) => {
  const longer = new AbortController()
  const before = Object.getOwnPropertySymbols(longer.signal).length
  for (let i = 0; i < 100; i++) releasableSignal(longer.signal).release()
  t.strictSame(getEventListeners(longer.signal, 'abort'), [])
  t.equal(Object.getOwnPropertySymbols(longer.signal).length, before)
})
