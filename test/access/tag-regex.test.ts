import t from 'tap'
import { mayControlTag } from '../../src/access/tag-protection-rules.ts'
import { MAX_REGEX_SIZE, regexProblem, regexSize } from '../../src/access/tag-regex.ts'

const allowed = (pattern: string, tag: string, id = 1, ...teams: number[]) =>
  mayControlTag([{ pattern, users: [1], teams: [7] }], tag, { id, teams })

t.test('a regular expression matches any part of a tag, and an unmatched tag is unprotected', async (t) => {
  for (const [pattern, tag, isProtected] of [
    ['/^v\\d+$/', 'v12', true],
    ['/^v\\d+$/', 'v12-rc', false],
    ['/rc/', 'v12-rc1', true],
    ['/^(?i)V/', 'v1', true],
    ['/release\\/.*/', 'my/release/1', true],
    ['/^v[0-9]{1,3}\\.[0-9]{1,3}$/', 'v1.22', true],
    ['//', 'any', true],
    ['/', 'any', false],
    ['v*', 'v/1', true],
  ] as const) {
    t.equal(allowed(pattern, tag, 2), !isProtected, `${pattern} ${tag}`)
    t.ok(allowed(pattern, tag, 1), 'the named user may')
    t.ok(allowed(pattern, tag, 2, 7), 'and the named team')
  }
})

t.test('an invalid or slow regular expression is refused with a reason', async (t) => {
  for (const [pattern, problem] of [
    ['/(/', /missing closing/],
    ['/(?=a)/', /is not a regular expression of RE2/],
    ['/(a)\\1/', /is not a regular expression of RE2/],
    ['/\\Q(\\E/', /quotes/],
    ['/(a{1000}){1000}/', /more than 150 parts/],
    ['/(?:(?:a{0,12}){0,12}){2}/', /more than 150 parts/],
    [`/${'a{60}'.repeat(3)}/`, /more than 150 parts/],
    ['/[]]{200}/', /more than 150 parts/],
    ['/[[:alpha:]\\]]{200}/', /more than 150 parts/],
  ] as const) {
    t.match(regexProblem(pattern), problem, pattern)
    t.ok(allowed(pattern, 'aaaa', 2), 'and would match nothing')
  }
  for (const pattern of [
    '/^(a|b)*a(a|b){20}$/',
    '/((((a|b)*)*)*)*c/',
    '/(x+x+)+y/',
    '/[{]1000}/',
    '/a{,9}/',
  ]) {
    t.ok(regexSize(pattern) <= MAX_REGEX_SIZE)
    t.equal(regexProblem(pattern), undefined, pattern)
    t.type(allowed(pattern, 'ab'.repeat(499), 2), 'boolean', 'it ends')
  }
})
