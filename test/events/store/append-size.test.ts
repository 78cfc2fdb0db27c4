import t from 'tap'
import { type Refusal, Refused } from '../../../src/errors/refusal.ts'
import {
  cutList,
  cutText,
  eventBytes,
  jsonBytes,
  MAX_APPEND_BYTES,
  requireAppendable,
  requireListFits,
} from '../../../src/events/store/append-size.ts'

/** Returns the refusal of a call. */
function refusalOf(call: () => void): Refusal | undefined {
  try {
    call()
    return undefined
  } catch (error) {
    if (error instanceof Refused) return error.refusal
    throw error
  }
}

const metadata = {
  actor: null,
  at: '2026-01-02T03:04:05.000Z',
  correlationId: 'c',
  causationId: 'c',
  schema: 1,
}
const event = (text: string) => ({ id: 'e', type: 'BodyChanged', data: { text }, metadata })

t.test(
  'the size of every append is computed: accepted ones are well below 1 MiB, larger ones are refused',
  async (t) => {
    const room = MAX_APPEND_BYTES - eventBytes(event(''))
    requireAppendable([event('x'.repeat(room))])
    t.equal(refusalOf(() => requireAppendable([event('x'.repeat(room + 1))]))?.refused, 'tooLarge')
    const half = event('x'.repeat(room / 2))
    t.throws(
      () => requireAppendable([half, half]),
      /at most 1015808 can be recorded at once/,
      'all events count',
    )
    t.ok(MAX_APPEND_BYTES < 1024 * 1024)
  },
)

t.test('the size is that of the stored JSON, not the number of characters', async (t) => {
  t.equal(jsonBytes('\u0001'), 8)
  t.equal(jsonBytes('€'), 5)
  t.equal(jsonBytes('\ud800'), 8)
  t.equal(refusalOf(() => requireAppendable([event('\u0001'.repeat(200_000))]))?.refused, 'tooLarge')
})

t.test('a list that is too large is refused with its field', async (t) => {
  requireListFits('labels', ['a'], 5)
  t.match(
    refusalOf(() => requireListFits('labels', ['ab'], 5)),
    { refused: 'unprocessable', message: /^labels: .* 6 bytes .* at most 5$/ },
  )
})

t.test('a text is cut by bytes, and never in the middle of a character', async (t) => {
  t.equal(cutText('short', 100), 'short')
  t.equal(cutText('abcdef', 8), 'abcdef')
  t.equal(cutText('abcdef', 7), 'abcde')
  t.equal(cutText('a€€', 8), 'a€')
  t.equal(cutText('a😀😀', 8), 'a😀')
  t.equal(cutText('\u0001\u0001', 13), '\u0001')
  for (const text of ['x', 'é', '€', '😀', '\n', '\u0001', '"', '\ud800']) {
    t.ok(jsonBytes(cutText(text.repeat(1000), 100)) <= 100, JSON.stringify(text))
  }
})

t.test('a list is cut by bytes', async (t) => {
  t.strictSame(cutList(['a', 'b', 'c'], 100), ['a', 'b', 'c'])
  const cut = cutList(['a', 'b', 'c'], 10)
  t.strictSame(cut, ['a', 'b'])
  t.ok(jsonBytes(cut) <= 10)
  t.strictSame(cutList(['a long one'], 5), [])
})
