/** Creates the site admin at the first start. */
import { randomBytes } from 'node:crypto'
import { hashPassword } from '../../auth/passwords/passwords.ts'
import { keepPassword, storedPassword } from '../../auth/secrets.ts'
import { decode } from '../../events/codec.ts'
import type { StartupRetry } from '../../events/store/startup-retry.ts'
import { claimKeys, claimStream } from '../../events/streams.ts'
import { FIRST_ADMIN } from '../../projections/models/users/accounts.fold.ts'
import type { Services, WriteServices } from '../../services/services.ts'
import { newContext } from '../execution/command-context.ts'
import { load } from '../execution/load.ts'
import { createUser } from './create.ts'
import { type UserState, userDecider } from './user.decider.ts'

/** Idempotency key of the first start: a start after a killed one appends the same events. */
const FIRST_START = { namespace: '0b7c1c0e-6f0f-4a57-8f0e-7f4f3c1d2a90', digest: 'first-start' }

export interface AdminPassword {
  /** The password that this start has generated: it is not stored, so it can be shown only now. */
  chosen?: string | undefined
  /** Whether an earlier start has printed a password that was never used: it may be lost. */
  maybeLost: boolean
}

const NO_PASSWORD_TO_SHOW: AdminPassword = { maybeLost: false }

/**
 * Creates the site admin `admin` unless it exists, with ADMIN_PASSWORD or a random password, which the caller can show:
 * so call it after everything that can fail in a start. `inStart` may run it several times. A lock serializes nodes that
 * start together: one password is kept and shown.
 *
 * An admin without a password means that the log is older than the store of secrets: a new DATA_DIR or database. Then
 * the admin gets a new password, with a log line.
 */
export async function ensureSiteAdmin(
  services: WriteServices & Pick<Services, 'config' | 'secrets' | 'log' | 'runExclusive'>,
  inStart: StartupRetry = (step) => step(),
): Promise<AdminPassword> {
  const { config, secrets, log } = services
  const chosen = randomBytes(15).toString('base64url')
  const password = config.adminPassword ?? chosen
  const passwordIsPrinted = config.adminPassword === undefined
  const shown: AdminPassword = passwordIsPrinted ? { chosen, maybeLost: false } : NO_PASSWORD_TO_SHOW
  /** The hash of this call's password, once created: an earlier try may have stored it. */
  let own: string | undefined
  const ownHash = async () => {
    own ??= await hashPassword(password)
    return own
  }
  const ensure = async () => {
    const admin = await userNow(services, FIRST_ADMIN)
    if (admin?.status === 'deleted') return NO_PASSWORD_TO_SHOW
    if (admin?.status !== 'existing') {
      const context = { ...newContext(null, 'first-start'), retry: FIRST_START }
      const names = { login: FIRST_ADMIN, email: `${FIRST_ADMIN}@localhost`, fullName: '' }
      await createUser(services, context, { ...names, siteAdmin: true, passwordIsPrinted }, password, ownHash)
      return shown
    }
    const { user, passwordIds } = admin
    const passwordId = passwordIds.at(-1) ?? null
    const stored = await storedPassword(secrets, user.id, passwordId)
    if (stored !== undefined) return stored.hash === own ? shown : { maybeLost: stored.unused === true }
    if (own === undefined) log.error(SECRETS_MISSING)
    await keepPassword(secrets, user.id, await ownHash(), passwordId, passwordIsPrinted)
    return shown
  }
  return inStart(() => services.runExclusive('site admin', ensure))
}

const SECRETS_MISSING =
  'the log has accounts, but their passwords and tokens are gone: DATA_DIR or the database of the secrets is new. ' +
  'Earlier passwords and tokens do not work. To get all of them back, stop the server and put secrets.db (or the ' +
  'database mergelog_secrets) of a backup in place. The user admin has a password again: ADMIN_PASSWORD, or the one ' +
  'that this start prints. It can set the passwords of other users: PATCH /api/v1/admin/users/{login}, or ' +
  '`mergelog set-password LOGIN`'

/** Returns the id of the user with that login, from the log: the server may be stopped. */
export async function userIdOf(services: WriteServices, login: string): Promise<number | undefined> {
  const state = await userNow(services, login)
  return state?.status === 'existing' ? state.user.id : undefined
}

/** Returns the user who has or had that login, from the log, since read models may lag. */
async function userNow(services: WriteServices, login: string): Promise<UserState | undefined> {
  const claim = claimStream(claimKeys.login(login))
  for await (const recorded of services.events.readStream(claim, { direction: 'backwards', maxCount: 1 })) {
    const event = decode(recorded)
    if (event.type !== 'ClaimTaken') return undefined
    return (await load(services, event.data.holder, userDecider)).state
  }
  return undefined
}
