import t from 'tap'
import { isBelow, isPositive, parseInt64, parseUint64 } from '../../src/events/int64.ts'

t.test('an int64 is parsed exactly, into its shortest form', async (t) => {
  for (const [text, value] of [
    ['0', '0'],
    ['-0', '0'],
    ['007', '7'],
    ['9007199254740993', '9007199254740993'],
    ['9223372036854775807', '9223372036854775807'],
    ['-9223372036854775808', '-9223372036854775808'],
  ] as const) {
    t.equal(parseInt64(text), value, text)
  }
})

t.test('a text that is not an int64 gives undefined', async (t) => {
  const bad = [
    '',
    '-',
    '+1',
    ' 1',
    '1 ',
    '1.0',
    '1e3',
    '0x10',
    '١',
    'NaN',
    '9223372036854775808',
    '1'.repeat(30),
  ]
  for (const text of [...bad, '-9223372036854775809', '1'.repeat(100_000)]) {
    t.equal(parseInt64(text), undefined, text.slice(0, 40))
  }
})

t.test('a uint64 goes up to 2^64 - 1 and is never negative', async (t) => {
  t.equal(parseUint64('18446744073709551615'), '18446744073709551615')
  for (const text of ['18446744073709551616', '-1']) t.equal(parseUint64(text), undefined, text)
})

t.test('int64 strings are compared as numbers', async (t) => {
  t.ok(isPositive('1'))
  for (const text of ['0', '-5']) t.notOk(isPositive(text), text)
  t.ok(isBelow('9', '10'))
  t.notOk(isBelow('10', '10'))
})
