import t from 'tap'
import { globMatches, globProblem } from '../../src/access/glob.ts'

function matches(pattern: string, names: readonly string[], separator?: string): string[] {
  return names.filter((name) => globMatches(pattern, name, separator))
}

t.test('a star matches all characters but the separator, a double star all characters', async (t) => {
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

t.test('a question mark matches one character of any Unicode plane, not the separator', async (t) => {
  t.same(matches('v?', ['v', 'v1', 'v12', 'v/', 'v😀'], '/'), ['v1', 'v😀'])
})

t.test('sets list characters and ranges; with ! or ^ they match all others', async (t) => {
  const names = ['v1', 'v5', 'va', 'v-', 'v]', 'v']
  t.same(matches('v[0-4a]', names, '/'), ['v1', 'va'])
  t.same(matches('v[!0-9]', names, '/'), ['va', 'v-', 'v]'])
  t.same(matches('v[^0-9]', names, '/'), ['va', 'v-', 'v]'])
  t.same(matches('v[a-]', names, '/'), ['va', 'v-'])
  t.same(matches('v[\\]]', names, '/'), ['v]'])
})

t.test('braces match one of several patterns, and may be nested', async (t) => {
  const names = ['main', 'dev', 'dev1', 'hot/fix', 'hot/fox', 'hot/', 'x']
  t.same(matches('{main,dev*}', names, '/'), ['main', 'dev', 'dev1'])
  t.same(matches('hot/{f{i,o}x,}', names, '/'), ['hot/fix', 'hot/fox', 'hot/'])
  t.same(matches('{,main}', ['', 'main'], '/'), ['', 'main'])
  t.same(matches('a,b?', ['a,bc', 'a', 'bc'], '/'), ['a,bc'], 'a comma outside braces is literal')
})

t.test('a backslash makes the next character literal', async (t) => {
  t.same(matches('a\\*', ['a*', 'ab'], '/'), ['a*'])
  t.same(matches('a\\\\', ['a\\', 'a'], '/'), ['a\\'])
})

t.test('special characters of regular expressions are literal here', async (t) => {
  t.same(matches('a.b+(c)|$^*', ['a.b+(c)|$^', 'axb'], '/'), ['a.b+(c)|$^'])
})

t.test('a malformed pattern is reported, and matches only the equal name', async (t) => {
  for (const pattern of ['[', '[a', '[]', '[!]', '[a\\', '{a', 'a}', '{a}}', 'a\\', '[z-a]']) {
    t.type(globProblem(pattern), 'string', pattern)
    t.same(matches(pattern, [pattern, 'a', 'z', ''], '/'), [pattern], pattern)
  }
  for (const pattern of ['', 'main', '*', '{a,b}', '[a-z]', '\\{', 'a,b', '[a-]']) {
    t.equal(globProblem(pattern), undefined, pattern)
  }
})

t.test(
  'patterns that take regular expressions exponential time cost pattern length times name length here',
  async (t) => {
    // 250,000 steps each. A backtracking matcher would need more than a century.
    const name = 'a'.repeat(1000)
    for (const pattern of [`${'*a'.repeat(120)}b`, `${'**a'.repeat(80)}b`, `${'{a,a}'.repeat(50)}b`]) {
      t.notOk(globMatches(pattern, name, '/'), pattern.slice(0, 10))
    }
    t.notOk(globMatches('{'.repeat(250), name, '/'))
  },
)
