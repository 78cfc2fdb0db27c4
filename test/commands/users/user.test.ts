import t from 'tap'
import {
  decideCreateToken,
  decideCreateUser,
  decideDeleteToken,
  tokenCalled,
  userDecider,
} from '../../../src/commands/users/user.ts'
import type { UserEvent } from '../../../src/events/domain-events.ts'
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
  t.equal(tokenCalled(state, '3')?.name, 'ci')
  t.equal(tokenCalled(state, 'ci')?.id, 3)
  t.equal(tokenCalled(state, '99')?.id, 4)
  t.equal(tokenCalled(state, '98'), undefined)
  t.equal(tokenCalled(userDecider.initialState, '3'), undefined)
})
