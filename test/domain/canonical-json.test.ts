import t from 'tap'
import { canonicalJson } from '../../src/domain/canonical-json.ts'

t.test('the example of RFC 8785, section 3.2.2 and 3.2.3', async (t) => {
  const input = `{
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\"\\/",
    "literals": [null, true, false]
  }`
  t.equal(
    canonicalJson(JSON.parse(input)),
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
  )
  const sorted = JSON.parse(
    '{"\\u20ac":"Euro Sign","\\r":"Carriage Return","\\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",' +
      '"\\ud83d\\ude00":"Emoji: Grinning Face","\\u0080":"Control","\\u00f6":"Latin Small Letter O With Diaeresis"}',
  )
  t.same(Object.values(JSON.parse(canonicalJson(Object.entries(sorted)))).length, 7)
  t.same(
    [...canonicalJson(sorted).matchAll(/:"([^"]*)"/g)].map(([, name]) => name),
    [
      'Carriage Return',
      'One',
      'Control',
      'Latin Small Letter O With Diaeresis',
      'Euro Sign',
      'Emoji: Grinning Face',
      'Hebrew Letter Dalet With Dagesh',
    ],
  )
})

t.test('values without a canonical form are refused', async (t) => {
  t.equal(canonicalJson({ b: undefined, a: -0 }), '{"a":0}')
  for (const value of ['\ud800', Number.NaN, undefined, 1n, { a: [Number.POSITIVE_INFINITY] }]) {
    t.throws(() => canonicalJson(value), TypeError)
  }
})
