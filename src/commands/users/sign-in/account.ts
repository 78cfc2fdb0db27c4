/**
 * Finds or creates the account of a person at an OpenID Connect provider. A claim on issuer and subject identifies it:
 * names and addresses change owners.
 */
import { createHash } from 'node:crypto'
import { noReplyAddress } from '../../../api/users/users.ts'
import type { Person } from '../../../auth/sessions/openid-provider.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import { claimKeys, idsStream, userStream } from '../../../events/streams.ts'
import type { Services, WriteServices } from '../../../services/services.ts'
import { users } from '../../execution/aggregates.ts'
import { type Claim, claimHolder, releaseClaim, takeClaim } from '../../execution/claims.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { load } from '../../execution/load.ts'
import { takeNumber } from '../../execution/sequences.ts'
import { claimName, holderOfName } from '../accounts/claims.ts'
import { emailProblem } from '../accounts/names.ts'
import {
  decideCreateLinkedUser,
  decideLinkIdentity,
  isLinked,
  isPrimaryEmail,
  type UserState,
  userDecider,
} from '../user.decider.ts'
import { loginsFor } from './login-name.ts'

type Stores = WriteServices & Pick<Services, 'accountChanges' | 'config' | 'publicUrl'>

export type ExistingUser = Extract<UserState, { status: 'existing' }>

const BEING_MADE = refuse.conflict('your account is being created by another sign-in: try again in a minute')
const ENDED = refuse.forbidden('your account was deleted; ask a site admin')
const MAX_FULL_NAME = 100

function claimOf(services: Stores, { issuer, subject }: Person): Omit<Claim, 'holder'> {
  const digest = createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('hex')
  const stillHolds = async (holder: string) => {
    const { state } = await load(services, holder, userDecider)
    // A deleted person cannot start again under another name.
    return state.status === 'deleted' || isLinked(state, { issuer, subject })
  }
  return { key: claimKeys.identity(digest), stillHolds }
}

/**
 * Returns the account of the person. At the first sign-in it is linked by a verified address, if the settings say so,
 * or created. On a refusal nothing is changed. @throws Refused: forbidden when the account may not sign in, is deleted,
 * or when another account has the verified address; conflict when it is being created; unprocessable when no login can
 * be derived
 */
export async function accountFor(
  services: Stores,
  context: CommandContext,
  person: Person,
): Promise<ExistingUser> {
  const claim = claimOf(services, person)
  const holder = await claimHolder(services, claim)
  if (holder === undefined) return firstSignIn(services, context, person, claim)
  const { state } = await load(services, holder, userDecider)
  if (state.status === 'deleted') throw new Refused(ENDED)
  if (state.status !== 'existing' || !isLinked(state, person)) throw new Refused(BEING_MADE)
  return requireActive(state)
}

function requireActive(state: ExistingUser): ExistingUser {
  if (state.settings.active && !state.settings.prohibitLogin) return state
  throw new Refused(refuse.forbidden('this account is prohibited from signing in; ask a site admin'))
}

function existing(state: UserState): ExistingUser {
  if (state.status !== 'existing') throw new Refused(ENDED)
  return state
}

async function firstSignIn(
  services: Stores,
  context: CommandContext,
  person: Person,
  claim: Omit<Claim, 'holder'>,
): Promise<ExistingUser> {
  const { config } = services
  // Only addresses that the provider has verified count.
  const email = person.emailVerified && emailProblem(person.email) === undefined ? person.email : undefined
  const owner = email && (await holderOfName(services, 'email', email))
  if (owner === undefined || owner === '') return create(services, context, person, email || undefined, claim)
  const { state } = await load(services, owner, userDecider)
  // A user may add an address of another person: it must neither identify that person nor lock the person out. A claim
  // is taken before the address is added, and released after it was removed.
  if (state.status === 'existing' && !isPrimaryEmail(state, email)) {
    return create(services, context, person, undefined, claim)
  }
  const isOwn = state.status === 'existing' && !state.settings.siteAdmin && config.oidcLinkByEmail
  if (!isOwn) {
    throw new Refused(
      refuse.forbidden(
        `${email} is the address of an account that is not linked to this sign-in; ask a site admin`,
      ),
    )
  }
  requireActive(state)
  if (!(await takeClaim(services, context, { ...claim, holder: owner })).taken) throw new Refused(BEING_MADE)
  const linked = await users.change(services, context, state.user.id, 'link identity', (user) =>
    decideLinkIdentity(user, person),
  )
  services.accountChanges.note(state.user.id, context.written)
  return existing(linked)
}

/** The order is number, claims of person, login and address, events: a crash leaves no visible part of a user. */
async function create(
  services: Stores,
  context: CommandContext,
  person: Person,
  email: string | undefined,
  claim: Omit<Claim, 'holder'>,
): Promise<ExistingUser> {
  const { publicUrl } = services
  const logins = loginsFor(person.login, person.email)
  if (logins.length === 0) {
    throw new Refused(
      refuse.unprocessable('no login can be derived from your name at the provider; ask a site admin'),
    )
  }
  const id = await takeNumber(services, context, idsStream('account'))
  const stream = userStream(id)
  if (!(await takeClaim(services, context, { ...claim, holder: stream })).taken) throw new Refused(BEING_MADE)
  const taken = [claim.key]
  try {
    const login = await firstFree(services, context, logins, stream)
    taken.push(claimKeys.login(login))
    const address = email ?? noReplyAddress(login, publicUrl())
    if (!(await claimName(services, context, 'email', address, stream))) {
      throw new Refused(refuse.conflict('another account has just taken your e-mail address'))
    }
    taken.push(claimKeys.email(address))
    const fullName = plainName(person.fullName)
    const details = { login, email: address, fullName, siteAdmin: false }
    const made = await users.change(services, context, id, 'create', (state) =>
      decideCreateLinkedUser(state, id, details, person),
    )
    return existing(made)
  } catch (error) {
    // After a refusal there is no event. After another failure the event may exist.
    if (error instanceof Refused) {
      for (const key of taken) await releaseClaim(services, context, key, stream)
    }
    throw error
  }
}

async function firstFree(
  services: Stores,
  context: CommandContext,
  logins: readonly string[],
  stream: string,
): Promise<string> {
  for (const login of logins) if (await claimName(services, context, 'login', login, stream)) return login
  throw new Refused(refuse.unprocessable(`"${logins[0]}" and names like it are taken; ask a site admin`))
}

/** Returns a name as one line without control characters, truncated. */
function plainName(name: string): string {
  const line = name
    .toWellFormed()
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
  return Array.from(line).slice(0, MAX_FULL_NAME).join('')
}
