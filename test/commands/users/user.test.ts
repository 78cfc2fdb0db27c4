import t from 'tap'
import {
  decideCreateToken,
  decideCreateUser,
  decideDeleteToken,
  decideDeleteUser,
  decideEditUser,
  MAX_TOKENS,
  tokenByIdOrName,
  userDecider,
} from '../../../src/commands/users/user.decider.ts'
import type { UserEvent } from '../../../src/events/catalog/users.ts'
import { specify } from '../../specification.ts'

const details = { login: 'alice', email: 'alice@example.org', fullName: 'Alice', siteAdmin: false }
const user = { id: 7, login: 'alice' }
const created: UserEvent = { type: 'UserCreated', data: { id: 7, ...details } }
const token = { id: 3, name: 'ci', lastEight: '01234567', scopes: ['read:user'] }
const made: UserEvent = {
  type: 'TokenCreated',
  data: { user, tokenId: 3, name: 'ci', lastEight: '01234567', scopes: ['read:user'] },
}
const deleted: UserEvent = { type: 'TokenDeleted', data: { user, tokenId: 3, name: 'ci' } }
const folded = (...events: UserEvent[]) => events.reduce(userDecider.evolve, userDecider.initialState)

t.test('a user is created once', async (t) => {
  const { given } = specify(t, userDecider)
  given()
    .when((state) => decideCreateUser(state, 7, details))
    .thenEvents(created)
  given(created)
    .when((state) => decideCreateUser(state, 7, details))
    .thenRefused('conflict')
})

t.test('one refusal names all invalid fields of a user', async (t) => {
  const { given } = specify(t, userDecider)
  given()
    .when((state) =>
      decideCreateUser(state, 7, { ...details, login: 'a b', email: 'x', fullName: 'a\x1b[1m' }),
    )
    .thenRefused(
      'unprocessable',
      "username: may only have letters, digits, '-', '_' and '.', and must begin with a letter or a digit; email: is not an e-mail address; full_name: must not have control characters",
    )
})

t.test(
  'the name of a token is unique among those of its user, and free again when it is deleted',
  async (t) => {
    const { given } = specify(t, userDecider)
    given(created)
      .when((state) => decideCreateToken(state, token))
      .thenEvents(made)
    given(created, made)
      .when((state) => decideCreateToken(state, { ...token, id: 4 }))
      .thenRefused('invalid', 'access token name has been used already')
    given(created, made, deleted)
      .when((state) => decideCreateToken(state, token))
      .thenEvents(made)
    given()
      .when((state) => decideCreateToken(state, token))
      .thenRefused('notFound')
  },
)

t.test('a user has at most 1,000 tokens', async (t) => {
  const { given } = specify(t, userDecider)
  const many = Array.from({ length: MAX_TOKENS }, (_, i) => ({
    ...made,
    data: { ...made.data, tokenId: 100 + i, name: `token ${i}` },
  }))
  given(created, ...many)
    .when((state) => decideCreateToken(state, token))
    .thenRefused('unprocessable', 'a user can have at most 1000 access tokens: delete some first')
  given(created, ...many.slice(1))
    .when((state) => decideCreateToken(state, token))
    .thenEvents(made)
})

t.test('a token is deleted once', async (t) => {
  const { given } = specify(t, userDecider)
  given(created, made)
    .when((state) => decideDeleteToken(state, 3))
    .thenEvents(deleted)
  given(created, made, deleted)
    .when((state) => decideDeleteToken(state, 3))
    .thenRefused('notFound')
  given(created)
    .when((state) => decideDeleteToken(state, 3))
    .thenRefused('notFound')
})

t.test('a token is found by its id and, when there is none, by its name', async (t) => {
  const five = { ...made, data: { ...made.data, tokenId: 5, name: '3' } } as const
  const four = { ...made, data: { ...made.data, tokenId: 4, name: '99' } } as const
  const state = folded(created, made, five, four)
  t.equal(tokenByIdOrName(state, '3')?.name, 'ci')
  t.equal(tokenByIdOrName(state, 'ci')?.id, 3)
  t.equal(tokenByIdOrName(state, '99')?.id, 4)
  t.equal(tokenByIdOrName(state, '98'), undefined)
  t.equal(tokenByIdOrName(userDecider.initialState, '3'), undefined)
})

const admin: UserEvent = { type: 'UserCreated', data: { id: 7, ...details, siteAdmin: true } }
const gone: UserEvent = { type: 'UserDeleted', data: { user } }

t.test('an edit records what it changes, and a password by its id alone', async (t) => {
  const { given } = specify(t, userDecider)
  given(created)
    .when((state) => decideEditUser(state, { fullName: 'Alice', active: false }, { hasOtherAdmin: true }))
    .thenEvents({ type: 'UserEdited', data: { user, changes: { active: false } } })
  given(created)
    .when((state) => decideEditUser(state, { email: details.email }, { hasOtherAdmin: true }))
    .thenEvents()
  const password = { id: 'p1', mustChange: true }
  given(created)
    .when((state) => decideEditUser(state, {}, { password, hasOtherAdmin: true }))
    .thenEvents({ type: 'PasswordChanged', data: { user, passwordId: 'p1', mustChangePassword: true } })
  given(created)
    .when((state) => decideEditUser(state, { email: '' }, { hasOtherAdmin: true }))
    .thenRefused('unprocessable', 'email: must not be empty')
  for (const past of [[], [created, gone]]) {
    given(...past)
      .when((state) => decideEditUser(state, {}, { password, hasOtherAdmin: true }))
      .thenRefused('notFound')
  }
})

t.test('the last site admin who can sign in is not switched off, demoted or deleted', async (t) => {
  const { given } = specify(t, userDecider)
  const owns = { repositories: 0, organizations: 0 }
  for (const changes of [{ active: false }, { prohibitLogin: true }, { siteAdmin: false }]) {
    given(admin)
      .when((state) => decideEditUser(state, changes, { hasOtherAdmin: false }))
      .thenRefused('unprocessable')
    given(admin)
      .when((state) => decideEditUser(state, changes, { hasOtherAdmin: true }))
      .thenEvents({ type: 'UserEdited', data: { user, changes } })
  }
  given(admin)
    .when((state) => decideDeleteUser(state, { ...owns, hasOtherAdmin: false }))
    .thenRefused('unprocessable')
  given(created)
    .when((state) => decideDeleteUser(state, { ...owns, hasOtherAdmin: false }))
    .thenEvents(gone)
  const off: UserEvent = { type: 'UserEdited', data: { user, changes: { active: false } } }
  given(admin, off)
    .when((state) => decideDeleteUser(state, { ...owns, hasOtherAdmin: false }))
    .thenEvents(gone)
})

t.test('a user who owns something is not deleted, and a deleted one creates no token', async (t) => {
  const { given } = specify(t, userDecider)
  for (const owned of [{ repositories: 1 }, { organizations: 1 }]) {
    given(created)
      .when((state) =>
        decideDeleteUser(state, { repositories: 0, organizations: 0, hasOtherAdmin: true, ...owned }),
      )
      .thenRefused('unprocessable')
  }
  given(created, gone)
    .when((state) => decideCreateToken(state, token))
    .thenRefused('notFound')
  given(created, gone)
    .when((state) => decideDeleteUser(state, { repositories: 0, organizations: 0, hasOtherAdmin: true }))
    .thenRefused('notFound')
})
