/** Changes a user's settings or password, for routes and the command line. */
import { randomUUID } from 'node:crypto'
import { hashPassword } from '../../auth/passwords/passwords.ts'
import { forgetPassword, keepPassword } from '../../auth/secrets.ts'
import { endSessions } from '../../auth/sessions/session-store.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { UserSettings } from '../../events/catalog/users.ts'
import { claimKeys, userStream } from '../../events/streams.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services, WriteServices } from '../../services/services.ts'
import { users } from '../execution/aggregates.ts'
import { releaseClaim } from '../execution/claims.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { claimName } from './accounts/claims.ts'
import { passwordProblem } from './create.ts'
import {
  ADDITIONAL_EMAIL,
  decideEditUser,
  isActiveAdmin,
  isAdditionalEmail,
  type NewPassword,
  settingsProblem,
} from './user.decider.ts'

export interface UserChange {
  changes?: Partial<UserSettings>
  password?: ({ text: string } & Omit<NewPassword, 'id'>) | undefined
}

/**
 * Changes a user, under a lock on all nodes. The order is: claim of a new address, hash of a new password, events,
 * release of the old address and hash. A hash counts only with its event, so a crash leaves the old password.
 *
 * @param otherAdmin returns whether another site admin can sign in; called only when this user may stop being one
 * @throws Refused: not found, or unprocessable for invalid or taken values and for the last site admin; nothing is
 * changed then
 */
export async function changeUser(
  services: WriteServices & Pick<Services, 'secrets' | 'accountChanges' | 'runExclusive'>,
  context: CommandContext,
  id: number,
  change: UserChange,
  otherAdmin: () => Promise<boolean> = async () => true,
): Promise<void> {
  const { siteAdmin, active, prohibitLogin } = change.changes ?? {}
  const mayEndAdmin = siteAdmin === false || active === false || prohibitLogin === true
  const changeUnderLock = (hasOtherAdmin: boolean) =>
    withUserLock(services, id, () => changeNow(services, context, id, change, hasOtherAdmin))
  if (!mayEndAdmin) return changeUnderLock(true)
  await withSiteAdminLock(services, async () => changeUnderLock(await otherAdmin()))
}

async function changeNow(
  services: WriteServices & Pick<Services, 'secrets' | 'accountChanges'>,
  context: CommandContext,
  id: number,
  { changes = {}, password: wanted }: UserChange,
  hasOtherAdmin: boolean,
): Promise<void> {
  const { secrets } = services
  const problem = settingsProblem(changes) ?? (wanted && passwordProblem(wanted.text))
  if (problem !== undefined) throw new Refused(problem)
  const stream = userStream(id)
  const before = await users.load(services, id)
  if (before.status !== 'existing') throw new Refused(refuse.notFound('user not found'))
  const { email } = changes
  const newKey = claimKeys.email(email ?? before.settings.email)
  if (isAdditionalEmail(before, email)) throw new Refused(ADDITIONAL_EMAIL)
  const isMoving = newKey !== claimKeys.email(before.settings.email)
  if (isMoving && !(await claimName(services, context, 'email', email ?? '', stream))) {
    throw new Refused(refuse.unprocessable(`email: "${email}" is used by another user`))
  }
  let password: NewPassword | undefined
  try {
    if (wanted !== undefined) {
      const { text, ...rest } = wanted
      const hash = await hashPassword(text)
      password = { id: randomUUID(), ...rest }
      await keepPassword(secrets, id, hash, password.id)
    }
    const facts = { password, hasOtherAdmin }
    const after = await users.change(services, context, id, 'edit user', (state) =>
      decideEditUser(state, changes, facts),
    )
    // Old sessions must not work again when the account is reactivated.
    if (password !== undefined || changes.active === false || changes.prohibitLogin === true) {
      await endSessions(secrets, id)
    }
    services.accountChanges.note(id, context.written)
    if (after.status !== 'existing') return
    // Keeps the previous hash: a backup whose log is a moment older than its secrets needs it.
    for (const passwordId of password === undefined ? [] : after.passwordIds.slice(0, -2)) {
      await forgetPassword(secrets, id, passwordId)
    }
  } catch (error) {
    // After a refusal there is no event. After another failure the event may exist.
    if (error instanceof Refused) {
      if (password !== undefined) await forgetPassword(secrets, id, password.id)
      if (isMoving) await releaseClaim(services, context, newKey, stream)
    }
    throw error
  }
  if (isMoving) await releaseClaim(services, context, claimKeys.email(before.settings.email), stream)
}

/** Serializes changes to site admins on all nodes: otherwise two could remove each other. */
export function withSiteAdminLock<T>(
  { runExclusive }: Pick<Services, 'runExclusive'>,
  work: () => Promise<T>,
): Promise<T> {
  return runExclusive('site admins', work)
}

/** Runs `work` under the lock of a user's claims. Take the lock of site admins first, if both are needed. */
export function withUserLock<T>(
  { runExclusive }: Pick<Services, 'runExclusive'>,
  id: number,
  work: () => Promise<T>,
): Promise<T> {
  return runExclusive(`user ${id}`, work)
}

/**
 * Checks in the log that the requester is still a site admin, after a wait for the lock. @throws Refused (forbidden)
 */
export async function requireStillAdmin(services: WriteServices, { id }: AccountDocument): Promise<void> {
  const state = await users.load(services, id)
  if (state.status === 'existing' && isActiveAdmin(state.settings)) return
  throw new Refused(refuse.forbidden('you are not a site admin any more'))
}

/** Returns whether another site admin can sign in, by the log; the read model only gives candidates. */
export async function hasOtherAdmin(services: Services, userId: number): Promise<boolean> {
  const candidates = await services.views.accounts.find({ siteAdmin: true })
  for (const { id } of candidates) {
    const state = id === userId ? undefined : await users.load(services, id)
    if (state?.status === 'existing' && isActiveAdmin(state.settings)) return true
  }
  return false
}
