import t from 'tap'
import { dueAt, waitAfter } from '../../../src/processes/webhooks/retries.ts'

const NOW = Date.parse('2026-11-24T12:00:00Z')
const HOUR = 3_600_000

t.test('every pause is kept while the clock is correct', async (t) => {
  for (let attempts = 1; attempts <= 40; attempts++) {
    for (const random of [0, 0.5, 1]) {
      const notBefore = NOW + waitAfter(attempts, random)
      t.equal(dueAt(notBefore, NOW), notBefore)
    }
  }
  t.equal(dueAt(NOW - HOUR, NOW), NOW - HOUR)
})

t.test('a clock that was set back delays a retry by at most the longest pause', async (t) => {
  for (const hours of [1, 24, 24 * 3650]) t.equal(dueAt(NOW + hours * HOUR, NOW), NOW)
})
