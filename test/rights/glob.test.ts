import t from 'tap'
import { globMatches, globProblem } from '../../src/rights/glob.ts'

function matches(pattern: string, names: readonly string[], separator?: string): string[] {
  return names.filter((name) => globMatches(pattern, name, separator))
}

t.test('a star matches any characters but the separator, a double star those too', async (t) => {
  const names = ['release', 'release/', 'release/1', 'release/1/a', 'a/release/1']
  t.same(matches('release/*', names, '/'), ['release/', 'release/1'])
  t.same(matches('release/**', names, '/'), ['release/', 'release/1', 'release/1/a'])
  t.same(matches('**/1', names, '/'), ['release/1', 'a/release/1'])
  t.same(matches('*', names, '/'), ['release'])
  t.same(matches('**', names, '/'), names)
  t.same(matches('***', names, '/'), names)
  t.same(matches('*/1', names, '/'), ['release/1'])
})

t.test('without a separator a star matches everything', async (t) => {
  t.same(matches('ci/*', ['ci/a', 'ci/a/b', 'ci']), ['ci/a', 'ci/a/b'])
  t.ok(globMatches('a?b', 'a/b'))
})

t.test('a question mark is exactly one character, of any plane, and no separator', async (t) => {
  t.same(matches('v?', ['v', 'v1', 'v12', 'v/', 'v😀'], '/'), ['v1', 'v😀'])
})

t.test('sets name characters and ranges, and what they do not name with ! or ^', async (t) => {
  const names = ['v1', 'v5', 'va', 'v-', 'v]', 'v']
  t.same(matches('v[0-4a]', names, '/'), ['v1', 'va'])
  t.same(matches('v[!0-9]', names, '/'), ['va', 'v-', 'v]'])
  t.same(matches('v[^0-9]', names, '/'), ['va', 'v-', 'v]'])
  t.same(matches('v[a-]', names, '/'), ['va', 'v-'])
  t.same(matches('v[\\]]', names, '/'), ['v]'])
})

t.test('braces are one of several patterns, and may hold others', async (t) => {
  const names = ['main', 'dev', 'dev1', 'hot/fix', 'hot/fox', 'hot/', 'x']
  t.same(matches('{main,dev*}', names, '/'), ['main', 'dev', 'dev1'])
  t.same(matches('hot/{f{i,o}x,}', names, '/'), ['hot/fix', 'hot/fox', 'hot/'])
  t.same(matches('{,main}', ['', 'main'], '/'), ['', 'main'])
  t.same(matches('a,b?', ['a,bc', 'a', 'bc'], '/'), ['a,bc'], 'a comma outside is a comma')
})

t.test('a backslash takes the meaning off the next character', async (t) => {
  t.same(matches('a\\*', ['a*', 'ab'], '/'), ['a*'])
  t.same(matches('a\\\\', ['a\\', 'a'], '/'), ['a\\'])
})

t.test('characters that mean something in regular expressions mean nothing here', async (t) => {
  t.same(matches('a.b+(c)|$^*', ['a.b+(c)|$^', 'axb'], '/'), ['a.b+(c)|$^'])
})

t.test('what is no pattern is told so, and matches only the name that it spells', async (t) => {
  for (const pattern of ['[', '[a', '[]', '[!]', '[a\\', '{a', 'a}', '{a}}', 'a\\', '[z-a]']) {
    t.type(globProblem(pattern), 'string', pattern)
    t.same(matches(pattern, [pattern, 'a', 'z', ''], '/'), [pattern], pattern)
  }
  for (const pattern of ['', 'main', '*', '{a,b}', '[a-z]', '\\{', 'a,b', '[a-]']) {
    t.equal(globProblem(pattern), undefined, pattern)
  }
})

t.test(
  'patterns that make regular expressions explode cost their length times that of the name',
  async (t) => {
    // 250,000 steps each; a matcher that tries one way after another would not end in this century.
    const name = 'a'.repeat(1000)
    for (const pattern of [`${'*a'.repeat(120)}b`, `${'**a'.repeat(80)}b`, `${'{a,a}'.repeat(50)}b`]) {
      t.notOk(globMatches(pattern, name, '/'), pattern.slice(0, 10))
    }
    t.notOk(globMatches('{'.repeat(250), name, '/'))
  },
)
