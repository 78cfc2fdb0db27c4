/** The cache of JSON that many answers contain. */
import { test } from 'tap'
import { jsonOf, withCachedJson } from '../../../src/http/answers/cached-json.ts'

const texts = ['', 'plain', '"quoted"', '\\', '$& $1 $$', '\u0000\u2028', 'ä漢😀', '\ud800', '"toJSON"']

test('the cache does not change the JSON of an answer', async (t) => {
  for (const text of texts) {
    const owner = { login: text, list: [text, null, { text }] }
    const repository = { name: text, owner }
    const plain = [
      { title: text, base: repository, head: repository, nobody: undefined, none: null },
      { title: text, base: repository, people: [owner, owner], more: { owner } },
      repository,
      owner,
    ]
    const expected = JSON.stringify(plain)
    withCachedJson(owner)
    t.equal(jsonOf(plain), expected, 'one cached part')
    withCachedJson(repository)
    t.equal(jsonOf(plain), expected, 'a cached part in a cached part')
    t.equal(jsonOf(plain), expected, 'again, from the cache')
    t.equal(jsonOf(repository), JSON.stringify(repository), 'a cached part alone')
  }
})

test('a cached part is serialized in full outside of an answer', async (t) => {
  const part = withCachedJson({ login: 'somebody' })
  t.equal(JSON.stringify({ part }), '{"part":{"login":"somebody"}}')
  t.same({ ...part }, { login: 'somebody' }, 'a copy has its fields')
  t.same(Object.keys(part), ['login'], 'it has no other fields than before')
})

test('an answer without cached parts, and one that is not an object', async (t) => {
  for (const value of [{}, [], null, { a: 1, b: [true, 'x'] }, 'text', 7]) {
    t.equal(jsonOf(value), JSON.stringify(value))
  }
})

test('an unserializable value is an error, and the next answer is whole', async (t) => {
  const part = withCachedJson({ login: 'somebody' })
  const broken = {
    toJSON() {
      throw new Error('it cannot be written')
    },
  }
  t.throws(() => jsonOf([part, broken]), { message: 'it cannot be written' })
  t.throws(() => jsonOf([withCachedJson({ broken })]), { message: 'it cannot be written' })
  t.equal(JSON.stringify(part), '{"login":"somebody"}')
  t.equal(jsonOf([part]), '[{"login":"somebody"}]')
})
