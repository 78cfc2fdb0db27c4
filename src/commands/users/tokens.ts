/** Creates and deletes access tokens: `/users/{username}/tokens`. */
import { hash, randomBytes } from 'node:crypto'
import { Type } from 'typebox'
import { AccessTokenWire, accessTokenWire, tokenOwner } from '../../api/users/tokens.ts'
import { UsernameParams } from '../../api/users/users.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { forgetOlderSecrets, forgetSecret, forgetToken, keepToken, timeOfNewest } from '../../auth/secrets.ts'
import { normalScopes, unknownScopes } from '../../auth/token-scopes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { idsStream } from '../../events/streams.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { users } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { textProblem } from './accounts/names.ts'
import { decideCreateToken, decideDeleteToken, type Token, tokenByIdOrName } from './user.decider.ts'

const MAX_SCOPES = 50

const CreateAccessTokenOption = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 255 }),
    scopes: Type.Optional(Type.Array(Type.String({ maxLength: 50 }), { maxItems: MAX_SCOPES })),
  },
  { title: 'CreateAccessTokenOption' },
)

/** Returns the normalized scopes. @throws Refused (invalid) for unknown scopes, or without scopes */
function requireScopes(scopes: readonly string[]): string[] {
  const unknown = unknownScopes(scopes)
  if (unknown.length > 0) {
    throw new Refused(refuse.invalid(`scopes: invalid access token scope: ${unknown.join(', ')}`))
  }
  if (scopes.length === 0) throw new Refused(refuse.invalid('scopes: access token must have a scope'))
  return normalScopes(scopes)
}

/** Generates a token of 40 hexadecimal digits. The last eight are not secret. */
function newToken(context: CommandContext, tokenId: number): { token: string; lastEight: string } {
  const lastEight =
    context.retry === undefined
      ? randomBytes(4).toString('hex')
      : hash('sha256', `${context.retry.namespace} ${tokenId}`, 'hex').slice(0, 8)
  return { token: randomBytes(16).toString('hex') + lastEight, lastEight }
}

/**
 * Creates a token. The order is number, secret, event: a secret is valid only with its event, so a crash leaves no
 * visible part of a token.
 *
 * The text of a token is never stored. A retry with the same Idempotency-Key answers with a new secret of the same
 * token, with the last eight digits in the event, and invalidates the first secret.
 * @throws Refused (invalid, unprocessable) for unknown or missing scopes, and for an invalid or taken name
 */
export async function createToken(
  services: Services,
  context: CommandContext,
  owner: Pick<AccountDocument, 'id'>,
  wanted: { name: string; scopes: readonly string[] },
): Promise<{ made: Token; token: string }> {
  const { secrets } = services
  const { name } = wanted
  const problem = textProblem(name)
  if (problem !== undefined) throw new Refused(refuse.unprocessable(`name: ${problem}`))
  const scopes = requireScopes(wanted.scopes)
  const tokenId = await takeNumber(services, context, idsStream('token'))
  const { token, lastEight } = newToken(context, tokenId)
  const made: Token = { id: tokenId, name, lastEight, scopes }
  const isRetryable = context.retry !== undefined
  const madeAt = isRetryable ? await timeOfNewest(secrets, tokenId, context.at) : context.at
  const secret = await keepToken(secrets, token, { userId: owner.id, tokenId, madeAt })
  try {
    const state = await users.change(services, context, owner.id, 'create token', (user) =>
      decideCreateToken(user, made),
    )
    if (tokenByIdOrName(state, `${tokenId}`)?.id !== tokenId) {
      throw new Refused(refuse.conflict('the access token that this request created has been deleted'))
    }
  } catch (error) {
    // After a refusal there is no event, so the secret is removed. After another failure the event may exist.
    if (error instanceof Refused) await forgetSecret(secrets, secret)
    throw error
  }
  if (isRetryable) await forgetOlderSecrets(secrets, tokenId)
  return { made, token }
}

/** Deletes the token with that id or name, before it resolves. @throws Refused (not found) */
export async function deleteToken(
  services: Services,
  context: CommandContext,
  owner: Pick<AccountDocument, 'id'>,
  idOrName: string,
): Promise<void> {
  const token = tokenByIdOrName(await users.load(services, owner.id), idOrName)
  if (token === undefined) throw new Refused(refuse.notFound('access token not found'))
  await users.change(services, context, owner.id, 'delete token', (user) => decideDeleteToken(user, token.id))
  await forgetToken(services.secrets, token.id)
  services.accountChanges.note(owner.id, context.written)
}

export const tokenRoutes: Routes = (services) => async (app) => {
  app.post(
    '/users/:username/tokens',
    route('user', {
      params: UsernameParams,
      body: CreateAccessTokenOption,
      response: { 201: AccessTokenWire },
    }),
    async (request, reply) => {
      const owner = await tokenOwner(services, request, request.params.username)
      const { name, scopes = [] } = request.body
      const context = commandContext(request)
      const { made, token } = await createToken(services, context, owner, { name, scopes })
      await settled(services, context, reply)
      const createdAt = (await services.views.tokens.get(`${made.id}`))?.createdAt ?? context.at
      return reply.code(201).send(accessTokenWire({ ...made, createdAt }, { secret: token }))
    },
  )

  app.delete(
    '/users/:username/tokens/:token',
    route('user', {
      params: Type.Object({ username: Type.String(), token: Type.String() }),
      response: NO_CONTENT,
    }),
    async (request, reply) => {
      const owner = await tokenOwner(services, request, request.params.username)
      const context = commandContext(request)
      await deleteToken(services, context, owner, request.params.token)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
