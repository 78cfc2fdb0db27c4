/**
 * Public keys, as facts. A key is an aggregate of its own, in a stream that its fingerprint names: so no two users have
 * the same one, and a repository has it once. Pure.
 */

import { type Refusal, refuse } from '../../errors/refusal.ts'
import type { DeployKeyEvent, KeyData, SshKeyEvent } from '../../events/catalog/keys.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'

export type SshKeyState = { status: 'none' } | ({ status: 'there' } & SshKeyEvent['data'])
export type DeployKeyState = { status: 'none' } | ({ status: 'there' } & DeployKeyEvent['data'])

export const sshKeyDecider: Decider<SshKeyState, SshKeyEvent> = deciderOf({
  initialState: { status: 'none' },
  snapshots: snapshots(),
  becomes: {
    SshKeyAdded: (_, { data }) => ({ ...data, status: 'there' }),
    SshKeyRemoved: () => ({ status: 'none' }),
  },
})

export const deployKeyDecider: Decider<DeployKeyState, DeployKeyEvent> = deciderOf({
  initialState: { status: 'none' },
  snapshots: snapshots(),
  becomes: {
    DeployKeyAdded: (_, { data }) => ({ ...data, status: 'there' }),
    DeployKeyRemoved: () => ({ status: 'none' }),
  },
})

/** At most this many keys of a user, and of a repository. */
export const MAX_KEYS = 500

/** What the owner of a new key has already. */
export interface OtherKeys {
  count: number
  hasTitle: boolean
}

/** Why an owner cannot have this key, apart from the key itself. */
function ownerProblem({ title }: Pick<KeyData, 'title'>, others: OtherKeys): Refusal | undefined {
  if (others.hasTitle) return refuse.unprocessable(`title: there is a key '${title}' already`)
  if (others.count >= MAX_KEYS) return refuse.unprocessable(`there are ${MAX_KEYS} keys already`)
  return undefined
}

export function decideAddSshKey(
  state: SshKeyState,
  data: SshKeyEvent['data'],
  others: OtherKeys,
): Decision<SshKeyEvent> {
  // Gitea's own words: clients look for them.
  if (state.status === 'there') return refuse.unprocessable('Key content has been used as non-deploy key')
  return ownerProblem(data, others) ?? [{ type: 'SshKeyAdded', data }]
}

/** Removes the key if it is still this one. */
export function decideRemoveSshKey(state: SshKeyState, keyId: number): Decision<SshKeyEvent> {
  if (state.status === 'none' || state.keyId !== keyId) return refuse.notFound('key not found')
  const { status: _, ...data } = state
  return [{ type: 'SshKeyRemoved', data }]
}

export function decideAddDeployKey(
  state: DeployKeyState,
  data: DeployKeyEvent['data'],
  others: OtherKeys,
): Decision<DeployKeyEvent> {
  if (state.status === 'there') return refuse.unprocessable('This key has already been added to this repo')
  return ownerProblem(data, others) ?? [{ type: 'DeployKeyAdded', data }]
}

export function decideRemoveDeployKey(state: DeployKeyState, keyId: number): Decision<DeployKeyEvent> {
  if (state.status === 'none' || state.keyId !== keyId) return refuse.notFound('key not found')
  const { status: _, ...data } = state
  return [{ type: 'DeployKeyRemoved', data }]
}
