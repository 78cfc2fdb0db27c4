/**
 * The aggregate of a public OpenPGP key. Its stream is named by the key's id, so no two users have the same key. Pure.
 */

import { type Refusal, refuse } from '../../errors/refusal.ts'
import type { GpgKeyEvent } from '../../events/catalog/keys.ts'
import type { EventOf } from '../../events/handlers.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'
import { MAX_KEYS } from './keys.decider.ts'

type Added = EventOf<'GpgKeyAdded'>['data']

export type GpgKeyState = { status: 'none' } | ({ status: 'there' } & Added)

export const gpgKeyDecider: Decider<GpgKeyState, GpgKeyEvent> = deciderOf({
  initialState: { status: 'none' },
  snapshots: snapshots(),
  becomes: {
    GpgKeyAdded: (_, { data }) => ({ ...data, status: 'there' }),
    GpgKeyRemoved: () => ({ status: 'none' }),
  },
  exists: (state: GpgKeyState) => state.status === 'there',
  changes: { GpgKeyVerified: () => ({ verified: true }) },
})

/** The owner of a new key. */
export interface GpgKeyOwner {
  /** Addresses of the owner, in lower case. */
  emails: readonly string[]
  /** Number of the owner's keys. */
  count: number
  /** The token to sign, as proof of the private key. */
  token: string
}

/** Adds a key with an address of its owner, or with the owner's signature of the token. */
export function decideAddGpgKey(
  state: GpgKeyState,
  data: Added,
  { emails, count, token }: GpgKeyOwner,
): Decision<GpgKeyEvent> {
  // Gitea's words, since clients match them.
  if (state.status === 'there') return refuse.unprocessable('A key with the same id already exists')
  if (!data.verified && !data.emails.some((email) => emails.includes(email))) {
    return refuse.notFound(
      'None of the emails attached to the GPG key could be found. ' +
        `It may still be added if you provide a valid signature for the token: ${token}`,
    )
  }
  if (count >= MAX_KEYS) return refuse.unprocessable(`there are ${MAX_KEYS} keys already`)
  return [{ type: 'GpgKeyAdded', data }]
}

/** Refusal of a wrong signature of the token. */
export const wrongTokenSignature = (token: string): Refusal =>
  refuse.unprocessable(
    'The provided GPG key, signature and token do not match or token is out of date. ' +
      `Provide a valid signature for the token: ${token}`,
  )

const gone = refuse.notFound('key not found')

/** Records that the owner has signed the token; no event for a verified key. */
export function decideVerifyGpgKey(state: GpgKeyState, keyId: number): Decision<GpgKeyEvent> {
  if (state.status === 'none' || state.keyId !== keyId) return gone
  return state.verified ? [] : [{ type: 'GpgKeyVerified', data: { keyId, user: state.user } }]
}

/** Removes the key, unless it was replaced. */
export function decideRemoveGpgKey(state: GpgKeyState, keyId: number): Decision<GpgKeyEvent> {
  if (state.status === 'none' || state.keyId !== keyId) return gone
  const { user, primary } = state
  return [{ type: 'GpgKeyRemoved', data: { keyId, user, longId: primary.longId } }]
}
