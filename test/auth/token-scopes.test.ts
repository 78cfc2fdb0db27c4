import t from 'tap'
import { missingScopes, normalScopes, SCOPE_CATEGORIES, unknownScopes } from '../../src/auth/token-scopes.ts'

t.test('each scope is listed once, write replaces read, and all of them become all', async (t) => {
  t.same(normalScopes(['read:user', 'write:user', 'read:user', 'read:issue']), ['read:issue', 'write:user'])
  t.same(normalScopes(['read:user', 'all']), ['all'])
  t.same(normalScopes(SCOPE_CATEGORIES.map((name) => `write:${name}`)), ['all'])
  t.same(normalScopes([]), [])
})

t.test('a scope that we do not enforce is unknown, like a misspelled one', async (t) => {
  t.same(unknownScopes(['all', 'public-only', 'write:repo', 'read:misc', '', 'admin']), [
    'public-only',
    'write:repo',
    '',
    'admin',
  ])
})

t.test('write includes read, a category includes no other one, and all everything', async (t) => {
  t.same(missingScopes(['write:issue'], ['issue'], 'read'), [])
  t.same(missingScopes(['read:issue'], ['issue'], 'read'), [])
  t.same(missingScopes(['read:issue'], ['issue'], 'write'), ['write:issue'])
  t.same(missingScopes(['write:issue'], ['repository', 'issue', 'user'], 'read'), [
    'read:repository',
    'read:user',
  ])
  t.same(missingScopes(['all'], ['admin', 'user'], 'write'), [])
  t.same(missingScopes([], ['user'], 'read'), ['read:user'])
})
