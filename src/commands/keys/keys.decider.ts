/**
 * The aggregate of a public SSH key. Its stream is named by the fingerprint, so no two users have the same key, and a
 * repository has it once. Pure.
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

/** Maximum number of keys of a user, and of a repository. */
export const MAX_KEYS = 500

/** The present keys of the owner. */
export interface OtherKeys {
  count: number
  hasTitle: boolean
}

/** Returns a refusal because of the owner's other keys. */
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
  // Gitea's words, since clients match them.
  if (state.status === 'there') return refuse.unprocessable('Key content has been used as non-deploy key')
  return ownerProblem(data, others) ?? [{ type: 'SshKeyAdded', data }]
}

/** Removes the key, unless it was replaced. */
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
