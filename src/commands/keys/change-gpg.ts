/** Adds, verifies and removes public OpenPGP keys of users. */

import { gpgTokens } from '../../auth/gpg-token.ts'
import { gpgKeyOf, isGoodSignature } from '../../domain/openpgp/gpg.ts'
import { Refused } from '../../errors/refusal.ts'
import { idsStream } from '../../events/streams.ts'
import type { GpgKeyDocument } from '../../projections/models/keys/gpg-keys.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { gpgKeys } from '../execution/aggregates.ts'
import { type CommandContext, executedAt } from '../execution/command-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import {
  decideAddGpgKey,
  decideRemoveGpgKey,
  decideVerifyGpgKey,
  wrongTokenSignature,
} from './gpg-key.decider.ts'

/** Returns the texts that count as the tokens: with each line ending that the user's tools may add. */
const signedTexts = (tokens: readonly string[]) =>
  ['', '\n', '\r\n'].flatMap((end) => tokens.map((token) => Buffer.from(token + end)))

/** @throws Refused (unprocessable) unless the key has signed one of the tokens */
async function requireSignature(
  client: string,
  tokens: readonly string[],
  armored: string,
  signature: string,
) {
  const isGood = await isGoodSignature(client, armored, signedTexts(tokens), signature)
  if (!isGood) throw new Refused(wrongTokenSignature(tokens[0] ?? ''))
}

/**
 * Adds a key. `client`: charged for parsing it. `signature`: of the token, by the key.
 * @throws Refused: unprocessable for an invalid or used key and for a wrong signature; not found for a key without an
 * address of the user and without a signature, as in Gitea
 */
export async function addGpgKey(
  services: Services,
  context: CommandContext,
  user: AccountDocument,
  { client, armored, signature }: { client: string; armored: string; signature: string },
): Promise<GpgKeyDocument> {
  const key = await gpgKeyOf(client, armored)
  const tokens = gpgTokens(user, Date.parse(context.at))
  const verified = signature !== ''
  if (verified) await requireSignature(client, tokens, key.armored, signature)
  const owner = {
    emails: [user.email.toLowerCase()],
    count: await services.views.gpgKeys.count({ userId: user.id }),
    token: tokens[0],
  }
  const keyId = await takeNumber(services, context, idsStream('key'))
  const data = { keyId, user: { id: user.id, login: user.login }, ...key, verified }
  const state = await gpgKeys.change(services, context, key.primary.longId, 'add key', (before) =>
    decideAddGpgKey(before, data, owner),
  )
  // A retried request may find it verified, or with another user.
  const isOwn = state.status === 'there' && state.keyId === keyId
  const { keyId: id, user: _, ...rest } = isOwn ? state : data
  const longIds = [rest.primary, ...rest.subkeys].map(({ longId }) => longId)
  return { ...rest, id, userId: user.id, longIds, addedAt: executedAt(context) }
}

/** Normalizes a long id: gpg writes leading zeros, Gitea omits them. */
const withZeros = (longId: string) => longId.replace(/^0x/i, '').toUpperCase().padStart(16, '0')

/** Verifies that the key is the user's. @throws Refused: not found, or unprocessable for a wrong signature */
export async function verifyGpgKey(
  services: Services,
  context: CommandContext,
  user: AccountDocument,
  { client, longId, signature }: { client: string; longId: string; signature: string },
): Promise<GpgKeyDocument> {
  const view = services.views.gpgKeys
  const key = await view.findOne({ userId: user.id, longIds: withZeros(longId) })
  if (key === undefined) throw notFoundIn(view, 'key not found')
  await requireSignature(client, gpgTokens(user, Date.parse(context.at)), key.armored, signature)
  await gpgKeys.change(services, context, key.primary.longId, `verify key ${key.id}`, (state) =>
    decideVerifyGpgKey(state, key.id),
  )
  return { ...key, verified: true }
}

export async function removeGpgKey(
  services: Services,
  context: CommandContext,
  key: Pick<GpgKeyDocument, 'id' | 'primary'>,
): Promise<void> {
  await gpgKeys.change(services, context, key.primary.longId, `remove key ${key.id}`, (state) =>
    decideRemoveGpgKey(state, key.id),
  )
}
