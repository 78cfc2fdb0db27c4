/** The user aggregate, with its access tokens. Pure. */

import { isRefusal, type Refusal, refuse } from '../../errors/refusal.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { UserEvent, UserSettings } from '../../events/catalog/users.ts'
import type { EventOf } from '../../events/handlers.ts'
import { changedFields } from '../execution/changed-fields.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { entriesOf, type IdMap, noIds, valueAt, withId, withoutId } from '../execution/id-map.ts'
import { snapshots } from '../execution/snapshots.ts'
import { emailProblem, loginProblem, textProblem, websiteProblem } from './accounts/names.ts'

export type UserDetails = Omit<EventOf<'UserCreated'>['data'], 'id'>

export type Token = { id: number } & Omit<EventOf<'TokenCreated'>['data'], 'user' | 'tokenId'>

export type UserState =
  | { status: 'missing' }
  | { status: 'deleted'; user: AccountRef }
  | {
      status: 'existing'
      user: AccountRef
      settings: UserSettings
      /** Ids of the last three passwords, the present one last; null for the first password. */
      passwordIds: readonly (string | null)[]
      tokens: IdMap<Token>
      /** Additional addresses; `settings` has the primary one. */
      emails: readonly string[]
      /** Linked OpenID Connect identities. */
      identities: readonly Identity[]
    }

/** A person's permanent identity at an OpenID Connect provider. */
export type Identity = Omit<EventOf<'IdentityLinked'>['data'], 'user'>

const NEW_USER: UserSettings = {
  email: '',
  fullName: '',
  description: '',
  location: '',
  website: '',
  showEmail: false,
  siteAdmin: false,
  active: true,
  prohibitLogin: false,
  mustChangePassword: false,
}

export const userDecider: Decider<UserState, UserEvent> = deciderOf({
  initialState: { status: 'missing' },
  snapshots: snapshots(),
  becomes: {
    UserCreated: (_, { data: { id, login, email, fullName, siteAdmin } }) => ({
      status: 'existing',
      user: { id, login },
      settings: { ...NEW_USER, email, fullName, siteAdmin },
      passwordIds: [null],
      tokens: noIds(),
      emails: [],
      identities: [],
    }),
    UserDeleted: (_, { data: { user } }) => ({ status: 'deleted', user }),
  },
  exists: (state: UserState) => state.status === 'existing',
  changes: {
    UserEdited: ({ settings }, { data }) => ({ settings: { ...settings, ...data.changes } }),
    PasswordChanged: ({ settings, passwordIds }, { data: { passwordId, mustChangePassword } }) => ({
      settings: { ...settings, mustChangePassword },
      passwordIds: [...passwordIds, passwordId].slice(-3),
    }),
    EmailAdded: ({ emails }, { data }) => ({ emails: [...emails, data.email] }),
    EmailRemoved: ({ emails }, { data }) => ({ emails: emails.filter((email) => email !== data.email) }),
    IdentityLinked: ({ identities }, { data: { issuer, subject } }) => ({
      identities: [...identities, { issuer, subject }],
    }),
    TokenCreated: ({ tokens }, { data: { tokenId: id, name, lastEight, scopes } }) => ({
      tokens: withId(tokens, id, { id, name, lastEight, scopes }),
    }),
    TokenDeleted: ({ tokens }, { data }) => ({ tokens: withoutId(tokens, data.tokenId) }),
  },
})

/** Returns what is invalid in the details of a new user, apart from taken names. */
export function userProblem({ login, email, fullName, siteAdmin }: UserDetails): Refusal | undefined {
  const errors = [
    ['username', loginProblem(login, siteAdmin)],
    ['email', emailProblem(email)],
    ['full_name', textProblem(fullName)],
  ].flatMap(([field, problem]) => (problem === undefined ? [] : [`${field}: ${problem}`]))
  return errors.length === 0 ? undefined : refuse.unprocessable(errors.join('; '), errors)
}

export function decideCreateUser(
  state: UserState,
  id: number,
  details: UserDetails,
  mustChangePassword = false,
): Decision<UserEvent> {
  if (state.status !== 'missing') return refuse.conflict(`user ${id} exists already`)
  const problem = userProblem(details)
  if (problem !== undefined) return problem
  const user = { id, login: details.login }
  const edited: UserEvent = { type: 'UserEdited', data: { user, changes: { mustChangePassword } } }
  return [{ type: 'UserCreated', data: { id, ...details } }, ...(mustChangePassword ? [edited] : [])]
}

/** Returns what is invalid in new settings, apart from a taken address. */
export function settingsProblem(changes: Partial<UserSettings>): Refusal | undefined {
  const { email, fullName, description, location, website } = changes
  const errors = [
    ['email', email === undefined ? undefined : emailProblem(email)],
    ['full_name', textProblem(fullName ?? '')],
    ['description', textProblem(description ?? '')],
    ['location', textProblem(location ?? '')],
    ['website', websiteProblem(website ?? '')],
  ].flatMap(([field, problem]) => (problem === undefined ? [] : [`${field}: ${problem}`]))
  return errors.length === 0 ? undefined : refuse.unprocessable(errors.join('; '), errors)
}

/** Returns whether the user is a site admin who can sign in. */
export function isActiveAdmin({ siteAdmin, active, prohibitLogin }: UserSettings): boolean {
  return siteAdmin && active && !prohibitLogin
}

/** A new password: the id of its hash in the secret store. */
export interface NewPassword {
  id: string
  mustChange: boolean
  /** Id of the password that the user has entered; absent when a site admin sets the new one. */
  replaces?: string | null
}

/**
 * Changes settings, the password, or both. `hasOtherAdmin`: whether another site admin can sign in; otherwise this one
 * stays.
 */
export function decideEditUser(
  state: UserState,
  changes: Partial<UserSettings>,
  { password, hasOtherAdmin }: { password?: NewPassword | undefined; hasOtherAdmin: boolean },
): Decision<UserEvent> {
  if (state.status !== 'existing') return NO_USER
  const problem = settingsProblem(changes)
  if (problem !== undefined) return problem
  if (isAdditionalEmail(state, changes.email)) return ADDITIONAL_EMAIL
  const { user, settings } = state
  if (password?.replaces !== undefined && password.replaces !== state.passwordIds.at(-1))
    return NOT_THE_PASSWORD
  if (!hasOtherAdmin && isActiveAdmin(settings) && !isActiveAdmin({ ...settings, ...changes })) {
    return LAST_ADMIN
  }
  const changed = changedFields(settings, changes)
  const events: UserEvent[] = []
  if (Object.keys(changed).length > 0) events.push({ type: 'UserEdited', data: { user, changes: changed } })
  if (password !== undefined) {
    const { id: passwordId, mustChange: mustChangePassword } = password
    events.push({ type: 'PasswordChanged', data: { user, passwordId, mustChangePassword } })
  }
  return events
}

/** The belongings of a user that prevent a deletion. */
export interface Belongings {
  repositories: number
  organizations: number
  hasOtherAdmin: boolean
}

/** Deletes a user without belongings, as in Gitea. */
export function decideDeleteUser(state: UserState, belongings: Belongings): Decision<UserEvent> {
  if (state.status !== 'existing') return NO_USER
  if (belongings.repositories > 0) {
    return refuse.unprocessable(
      `${state.user.login} still owns repositories (${belongings.repositories}): delete them first`,
    )
  }
  if (belongings.organizations > 0) {
    return refuse.unprocessable(
      `${state.user.login} is still a member of organizations (${belongings.organizations}): end the memberships first`,
    )
  }
  if (!belongings.hasOtherAdmin && isActiveAdmin(state.settings)) return LAST_ADMIN
  return [{ type: 'UserDeleted', data: { user: state.user } }]
}

/** Returns whether it is an additional address of the user. */
export const isAdditionalEmail = (state: UserState, email: string | undefined): boolean =>
  state.status === 'existing' && email !== undefined && state.emails.some(sameEmail(email))

/** Returns whether it is the primary address, set by a site admin or a provider. */
export const isPrimaryEmail = (state: UserState, email: string | undefined): boolean =>
  state.status === 'existing' && email !== undefined && sameEmail(email)(state.settings.email)

export const ADDITIONAL_EMAIL = refuse.unprocessable(
  'email: is an additional address of the user already; remove that one first',
)

const sameEmail = (email: string) => (other: string) => other.toLowerCase() === email.toLowerCase()

/** Maximum number of additional addresses of a user: each is a claim. */
const MAX_ADDITIONAL_EMAILS = 20

/** Adds addresses, all or none. Claims decide whether they are free. */
export function decideAddEmails(state: UserState, emails: readonly string[]): Decision<UserEvent> {
  if (state.status !== 'existing') return NO_USER
  if (emails.length === 0) return refuse.unprocessable('emails: must not be empty')
  const { user, settings } = state
  const own = [settings.email, ...state.emails]
  const errors = emails.flatMap((email, i) => {
    const problem = emailProblem(email)
    if (problem !== undefined) return [`emails: ${JSON.stringify(email)} ${problem}`]
    const isKnown = [...own, ...emails.slice(0, i)].some(sameEmail(email))
    return isKnown ? [`emails: ${JSON.stringify(email)} is already one of your addresses`] : []
  })
  if (errors.length > 0) return refuse.unprocessable(errors.join('; '), errors)
  if (state.emails.length + emails.length > MAX_ADDITIONAL_EMAILS) {
    return refuse.unprocessable(`emails: a user can have at most ${MAX_ADDITIONAL_EMAILS} other addresses`)
  }
  return emails.map((email) => ({ type: 'EmailAdded', data: { user, email } }))
}

/** Removes addresses, all or none. The primary one stays. */
export function decideRemoveEmails(state: UserState, emails: readonly string[]): Decision<UserEvent> {
  if (state.status !== 'existing') return NO_USER
  const { user, settings } = state
  const removed = new Set<string>()
  for (const email of emails) {
    if (sameEmail(email)(settings.email)) {
      return refuse.unprocessable(`emails: ${JSON.stringify(email)} is your primary address, which stays`)
    }
    const found = state.emails.find(sameEmail(email))
    if (found === undefined)
      return refuse.notFound(`emails: ${JSON.stringify(email)} is not one of your addresses`)
    removed.add(found)
  }
  return [...removed].map((email) => ({ type: 'EmailRemoved', data: { user, email } }))
}

const NO_USER = refuse.notFound('user not found')
export const NOT_THE_PASSWORD = refuse.forbidden('old_password: is not your password')
const LAST_ADMIN = refuse.unprocessable(
  'the server needs a site admin who can sign in; make another one first',
)

/** Returns whether the identity is linked to the account. */
export function isLinked(state: UserState, { issuer, subject }: Identity): boolean {
  return (
    state.status === 'existing' &&
    state.identities.some((one) => one.issuer === issuer && one.subject === subject)
  )
}

/** Links an identity to the account. */
export function decideLinkIdentity(state: UserState, identity: Identity): Decision<UserEvent> {
  if (state.status !== 'existing') return NO_USER
  if (isLinked(state, identity)) return []
  const { issuer, subject } = identity
  return [{ type: 'IdentityLinked', data: { user: state.user, issuer, subject } }]
}

/** Creates a user with a linked identity and without a password. */
export function decideCreateLinkedUser(
  state: UserState,
  id: number,
  details: UserDetails,
  { issuer, subject }: Identity,
): Decision<UserEvent> {
  const created = decideCreateUser(state, id, details)
  if (isRefusal(created)) return created
  const user = { id, login: details.login }
  return [...created, { type: 'IdentityLinked', data: { user, issuer, subject } }]
}

/** Maximum number of tokens of a user: a new name is compared with all, and the user's deletion deletes each. */
export const MAX_TOKENS = 1000

/** Creates a token. Names are unique for a user. */
export function decideCreateToken(state: UserState, token: Token): Decision<UserEvent> {
  if (state.status !== 'existing') return NO_USER
  if (tokenNamed(state.tokens, token.name) !== undefined) {
    return refuse.invalid('access token name has been used already')
  }
  if (state.tokens.size >= MAX_TOKENS) {
    return refuse.unprocessable(`a user can have at most ${MAX_TOKENS} access tokens: delete some first`)
  }
  const { id: tokenId, ...details } = token
  return [{ type: 'TokenCreated', data: { user: state.user, tokenId, ...details } }]
}

/** Returns the token with that id, or else with that name. */
export function tokenByIdOrName(state: UserState, idOrName: string): Token | undefined {
  if (state.status !== 'existing') return undefined
  const byId = /^[1-9]\d{0,15}$/.test(idOrName) ? valueAt(state.tokens, Number(idOrName)) : undefined
  return byId ?? tokenNamed(state.tokens, idOrName)
}

function tokenNamed(tokens: IdMap<Token>, wanted: string): Token | undefined {
  for (const [, token] of entriesOf(tokens)) if (token.name === wanted) return token
  return undefined
}

export function decideDeleteToken(state: UserState, tokenId: number): Decision<UserEvent> {
  const token = state.status === 'existing' ? valueAt(state.tokens, tokenId) : undefined
  if (state.status !== 'existing' || token === undefined) return refuse.notFound('access token not found')
  return [{ type: 'TokenDeleted', data: { user: state.user, tokenId, name: token.name } }]
}
