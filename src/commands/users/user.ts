/** The user aggregate, with its access tokens. Pure. */
import type { AccountRef, UserEvent } from '../../events/domain-events.ts'
import type { EventOf } from '../../events/handlers.ts'
import { type Refusal, refuse } from '../../refusal.ts'
import { emailProblem, loginProblem, textProblem } from '../accounts/names.ts'
import { type Decider, deciderOf } from '../decider.ts'
import type { Decision } from '../execute.ts'
import { snapshots } from '../snapshots.ts'

export type UserDetails = Omit<EventOf<'UserCreated'>['data'], 'id'>

export type Token = { id: number } & Omit<EventOf<'TokenCreated'>['data'], 'user' | 'tokenId'>

type UserState =
  | { status: 'missing' }
  | { status: 'active'; user: AccountRef; tokens: ReadonlyMap<number, Token> }

export const userDecider: Decider<UserState, UserEvent> = deciderOf({
  initialState: { status: 'missing' },
  snapshots: snapshots(),
  becomes: {
    UserCreated: (_, { data: { id, login } }) => ({
      status: 'active',
      user: { id, login },
      tokens: new Map(),
    }),
  },
  exists: (state: UserState) => state.status === 'active',
  changes: {
    TokenCreated: (state, { data: { tokenId: id, name, lastEight, scopes } }) => ({
      tokens: new Map(state.tokens).set(id, { id, name, lastEight, scopes }),
    }),
    TokenDeleted(state, { data }) {
      const tokens = new Map(state.tokens)
      tokens.delete(data.tokenId)
      return { tokens }
    },
  },
})

/** What is wrong with the details of a new user, apart from names that are taken. */
export function userProblem({ login, email, fullName, siteAdmin }: UserDetails): Refusal | undefined {
  const errors = [
    ['username', loginProblem(login, siteAdmin)],
    ['email', emailProblem(email)],
    ['full_name', textProblem(fullName)],
  ].flatMap(([field, problem]) => (problem === undefined ? [] : [`${field}: ${problem}`]))
  return errors.length === 0 ? undefined : refuse.unprocessable(errors.join('; '), errors)
}

export function decideCreateUser(state: UserState, id: number, details: UserDetails): Decision<UserEvent> {
  if (state.status !== 'missing') return refuse.conflict(`user ${id} exists already`)
  return userProblem(details) ?? [{ type: 'UserCreated', data: { id, ...details } }]
}

/** Creates a token. The tokens of a user have different names, since the user finds them by name. */
export function decideCreateToken(state: UserState, token: Token): Decision<UserEvent> {
  if (state.status === 'missing') return refuse.notFound('user not found')
  if ([...state.tokens.values()].some(({ name }) => name === token.name)) {
    return refuse.invalid('access token name has been used already')
  }
  const { id: tokenId, ...details } = token
  return [{ type: 'TokenCreated', data: { user: state.user, tokenId, ...details } }]
}

/** The token with that id or, if there is none, with that name. */
export function tokenCalled(state: UserState, idOrName: string): Token | undefined {
  if (state.status === 'missing') return undefined
  const byId = /^[1-9]\d{0,15}$/.test(idOrName) ? state.tokens.get(Number(idOrName)) : undefined
  return byId ?? [...state.tokens.values()].find(({ name }) => name === idOrName)
}

export function decideDeleteToken(state: UserState, tokenId: number): Decision<UserEvent> {
  const token = state.status === 'active' ? state.tokens.get(tokenId) : undefined
  if (state.status === 'missing' || token === undefined) return refuse.notFound('access token not found')
  return [{ type: 'TokenDeleted', data: { user: state.user, tokenId, name: token.name } }]
}
