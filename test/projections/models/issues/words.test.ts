import t from 'tap'
import { wordsOf } from '../../../../src/projections/models/issues/words.ts'

/** Whether every word of `q` is the beginning of a word of the text: the read store's `$words`. */
function finds(q: string, text: string): boolean {
  const words = wordsOf(text)
  return wordsOf(q).every((asked) => words.some((word) => word.startsWith(asked)))
}

t.test('words are runs of letters and digits, each once, in the order of the text', async (t) => {
  t.same(wordsOf('The merge-base of v1.2: the_end (of it)!'), [
    ...['the', 'merge', 'base', 'of', 'v1', '2', 'end', 'it'],
  ])
  for (const none of ['', ' \n\t', '-- ?! …', '😀🎉', '\u0000']) t.same(wordsOf(none), [], none.trim())
})

t.test('the fast path for ASCII gives the same words as the general one', async (t) => {
  const long = 'a'.repeat(100)
  for (const text of ['The merge-base of v1.2: the_end (of it)!', `${long} ${long}b x\u0000y\n_Z_`, '']) {
    t.same([...wordsOf(text), 'é'], wordsOf(`${text} é`), text)
  }
})

t.test('case is ignored, in any script', async (t) => {
  for (const [q, text] of [
    ['MERGE', 'merge'],
    ['größe', 'GRÖSSE'],
    ['GRÖSSE', 'größe'],
    ['ΟΔΟΣ', 'οδος'],
    ['οδος', 'ΟΔΟΣ'],
    ['οδος', 'οδοσήμανση'],
    ['привет', 'ПРИВЕТ, МИР'],
    ['İSTANBUL', 'İstanbul'],
    ['istanbul', 'İstanbul'],
    ['ISTANBUL', 'İstanbul’da'],
    ['İstanbul', 'istanbul'],
    ['ՀԱՅԵՐԵՆ', 'հայերեն'],
  ] as const) {
    t.ok(finds(q, text), `${q} in ${text}`)
  }
})

t.test('a character is found in each of its Unicode forms', async (t) => {
  for (const [q, text] of [
    ['cafe\u0301', 'caf\u00e9'],
    ['caf\u00e9', 'cafe\u0301s'],
    ['file', 'ﬁle'],
    ['abc', 'ＡＢＣ'],
    ['ガイド', 'ｶﾞｲﾄﾞ'],
  ] as const) {
    t.ok(finds(q, text), `${q} in ${text}`)
  }
  t.notOk(finds('cafes', 'café'))
})

t.test('a word is found by its beginning, not by its middle', async (t) => {
  t.ok(finds('mer', 'a merge'))
  t.ok(finds('mer pull', 'pulls were merged'))
  t.notOk(finds('erge', 'a merge'))
  t.notOk(finds('mer pull', 'a merge'))
  t.ok(finds('नम', 'नमस्ते'))
  t.ok(finds('서울', '서울특별시'))
})

t.test('in scripts without spaces, any part of a text is found', async (t) => {
  for (const q of ['日本語', '本語', '語', 'テスト', '日本語のテスト', 'のテ', 'api']) {
    t.ok(finds(q, 'これは日本語のテスト、API付き'), q)
  }
  for (const q of ['中国', '語日', '日テ']) t.notOk(finds(q, 'これは日本語のテスト'), q)
  t.ok(finds('ไทย', 'ภาษาไทย'))
})

t.test('only the beginning of a long word is stored, and no character is cut in half', async (t) => {
  const long = 'x'.repeat(100)
  t.same(wordsOf(long), ['x'.repeat(64)])
  t.ok(finds(long, `${long}y`))
  const wide = `a${'𝕏𐐷'.repeat(50)}`
  const [word = ''] = wordsOf(wide)
  t.equal(Buffer.from(word).toString(), word)
  t.equal([...word].length, 64)
  t.ok(finds(wide, `${wide}z`))
  t.ok(finds('\ud800 a', 'a\ud800b a'), 'half a character is not a word')
})

t.test('a megabyte of any text is split before the test times out', async (t) => {
  for (const text of [
    'a'.repeat(2 ** 20),
    '\u0301'.repeat(2 ** 19),
    ' '.repeat(2 ** 20),
    '東'.repeat(2 ** 18),
  ]) {
    t.ok(wordsOf(text).length <= 2)
  }
})

t.test('a run of very many marks is cut: their order takes time by the square of their number', async (t) => {
  const marks = '\u0301\u0316'
  t.strictSame(wordsOf(`a${marks.repeat(30_000)} b`), wordsOf(`a${marks.repeat(15)} b`))
  t.ok(finds('नमस्ते', `x${marks.repeat(1000)} नमस्ते`))
})

t.test('a text whose characters stand for many others is searched by its beginning', async (t) => {
  const long = '\ufdfa'
  t.ok(long.normalize('NFKC').length > 10)
  t.ok(finds('صلى', `${long} end`))
  t.ok(finds('beginning', `beginning ${`${long} `.repeat(10_000)} end`))
  t.notOk(finds('end', `beginning ${`${long} `.repeat(10_000)} end`))
})
