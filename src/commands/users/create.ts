/** Creates a user: `POST /admin/users`, and the site admin of the first start. */
import { type Static, Type } from 'typebox'
import { UserWire, userWire } from '../../api/users/users.ts'
import { hashPassword, MAX_PASSWORD, MIN_PASSWORD } from '../../auth/passwords/passwords.ts'
import { siteAdmin } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { keepPassword } from '../../auth/secrets.ts'
import { coded, Refused, refuse } from '../../errors/refusal.ts'
import { claimKeys, idsStream, userStream } from '../../events/streams.ts'
import { accountFold } from '../../projections/models/users/accounts.fold.ts'
import type { Services, WriteServices } from '../../services/services.ts'
import { users } from '../execution/aggregates.ts'
import { releaseClaim } from '../execution/claims.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { load } from '../execution/load.ts'
import { loadDocument } from '../execution/load-document.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { claimName } from './accounts/claims.ts'
import { decideCreateUser, type UserDetails, userDecider, userProblem } from './user.decider.ts'

const CreateUserOption = Type.Object(
  {
    username: Type.String(),
    email: Type.String(),
    password: Type.Optional(Type.String()),
    full_name: Type.Optional(Type.String({ maxLength: 100 })),
    must_change_password: Type.Optional(
      Type.Boolean({
        description: 'Whether the user must change the password first; default false (true in Gitea)',
      }),
    ),
    restricted: Type.Optional(Type.Boolean()),
    visibility: Type.Optional(Type.String()),
    login_name: Type.Optional(Type.String({ description: 'Only the username is supported' })),
    source_id: Type.Optional(
      Type.Integer({ description: 'Only 0, the accounts of this server, is supported' }),
    ),
    send_notify: Type.Optional(Type.Boolean({ description: 'Ignored: this server sends no email' })),
    created_at: Type.Optional(Type.String({ description: 'Not supported' })),
  },
  { title: 'CreateUserOption' },
)

/** Rejects unsupported fields instead of ignoring them. @throws Refused (unprocessable) */
function requireSupported({
  username,
  restricted,
  visibility,
  login_name,
  source_id,
  created_at,
}: Static<typeof CreateUserOption>): void {
  const errors = [
    ...(restricted === true ? ['restricted: is not supported'] : []),
    ...(visibility && visibility !== 'public' ? ['visibility: users are always public'] : []),
    ...(login_name && login_name !== username ? ['login_name: can only be the username'] : []),
    ...(source_id ? ['source_id: is not supported: all accounts are those of this server'] : []),
    ...(created_at ? ['created_at: is not supported'] : []),
  ]
  if (errors.length > 0) throw new Refused(refuse.unprocessable(errors.join('; '), errors))
}

/** The stores needed. The first start has no other services yet. */
type Stores = WriteServices & Pick<Services, 'secrets'>

type NewUser = UserDetails & {
  mustChangePassword?: boolean
  /** Whether a start prints the password, so that it may be lost. */
  passwordIsPrinted?: boolean
}

/**
 * Creates a user with a password. Resolves to the user's id.
 *
 * The order is number, claims of login and address, secret, event: a crash leaves no visible part of a user. A retry
 * with the same Idempotency-Key continues where the first attempt stopped.
 * @throws Refused (unprocessable) for an invalid or taken login or address, or a short password
 */
export async function createUser(
  services: Stores,
  context: CommandContext,
  { mustChangePassword, passwordIsPrinted = false, ...details }: NewUser,
  password: string,
  hash: (password: string) => Promise<string> = hashPassword,
): Promise<number> {
  const problem = userProblem(details) ?? passwordProblem(password)
  if (problem !== undefined) throw new Refused(problem)
  const id = await takeNumber(services, context, idsStream('account'))
  const stream = userStream(id)
  // A retried request finds its user, and must not change names or password.
  const { revision } = await load(services, stream, userDecider)
  if (revision === null) {
    const { login, email } = details
    if (!(await claimName(services, context, 'login', login, stream))) {
      throw new Refused(coded('username_taken', refuse.unprocessable(`username: "${login}" is taken`)))
    }
    if (!(await claimName(services, context, 'email', email, stream))) {
      await releaseClaim(services, context, claimKeys.login(login), stream)
      throw new Refused(refuse.unprocessable(`email: "${email}" is used by another user`))
    }
    await keepPassword(services.secrets, id, await hash(password), null, passwordIsPrinted)
  }
  await users.change(services, context, id, 'create', (state) =>
    decideCreateUser(state, id, details, mustChangePassword),
  )
  return id
}

/** Returns a refusal of an invalid new password. */
export function passwordProblem(password: string) {
  if (password.length >= MIN_PASSWORD && password.length <= MAX_PASSWORD) return undefined
  return refuse.unprocessable(`password: must have ${MIN_PASSWORD} to ${MAX_PASSWORD} characters`)
}

export const createUserRoutes: Routes = (services) => async (app) => {
  app.post(
    '/admin/users',
    route('admin', { body: CreateUserOption, response: { 201: UserWire } }),
    async (request, reply) => {
      const requester = siteAdmin(request, 'create users')
      const { password = '', ...rest } = request.body
      requireSupported(request.body)
      const { username, email, full_name, must_change_password = false } = rest
      const details = {
        login: username,
        email,
        fullName: full_name ?? '',
        siteAdmin: false,
        mustChangePassword: must_change_password,
      }
      const context = commandContext(request, rest)
      const id = await createUser(services, context, details, password)
      await settled(services, context, reply)
      const source = { id, stream: userStream(id), view: services.views.accounts, fold: accountFold }
      const user = await loadDocument(services, 'user', source)
      return reply.code(201).send(userWire(user, services.publicUrl(), requester))
    },
  )
}
