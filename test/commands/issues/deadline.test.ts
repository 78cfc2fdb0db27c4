import t from 'tap'
import { deadlineOf } from '../../../src/commands/issues/fields.ts'
import { Refused } from '../../../src/errors/refusal.ts'

t.test('deadline.1: a deadline is 23:59:59 of its date, in the zone in which it is given', async (t) => {
  const deadlines: Record<string, string> = {
    '2026-12-31T00:00:00Z': '2026-12-31T23:59:59Z',
    '2026-12-31T23:59:59Z': '2026-12-31T23:59:59Z',
    '2026-12-31T23:00:00-12:00': '2026-12-31T23:59:59-12:00',
    '2026-12-31T00:30:00+14:00': '2026-12-31T23:59:59+14:00',
    '2028-02-29T12:00:00.123456789+05:45': '2028-02-29T23:59:59+05:45',
    '2026-12-31t10:00:00z': '2026-12-31T23:59:59Z',
    '0001-01-01T00:00:01Z': '0001-01-01T23:59:59Z',
  }
  for (const [given, stored] of Object.entries(deadlines)) t.equal(deadlineOf(given), stored, given)
})

t.test('deadline.2: null, an empty text and the zero value mean no deadline', async (t) => {
  for (const none of [
    null,
    '',
    '0001-01-01T00:00:00Z',
    '0001-01-01t00:00:00z',
    '0001-01-01T00:00:00.0+00:00',
  ]) {
    t.equal(deadlineOf(none), null, `${none}`)
  }
})

t.test('an invalid date-time or a day that does not exist is refused with the field', async (t) => {
  const odd = [
    'tomorrow',
    '2026-12-31',
    '2026-12-31T00:00:00',
    '2026-12-31 00:00:00Z',
    '2026-02-29T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-12-31T25:00:00Z',
    '2026-12-31T24:00:00Z',
    '2026-12-31T23:00:00+24:00',
    '2026-12-31T00:00:00+99:00',
    '12026-12-31T00:00:00Z',
    ' 2026-12-31T00:00:00Z',
    '2026-12-31T00:00:00Z\n',
    '9'.repeat(100_000),
  ]
  for (const text of odd) {
    try {
      t.fail(`${text.slice(0, 40)} gave ${deadlineOf(text)}`)
    } catch (error) {
      const refusal = error instanceof Refused ? error.refusal : undefined
      t.match(refusal, { refused: 'unprocessable', message: /^due_date: / }, text.slice(0, 40))
    }
  }
})
