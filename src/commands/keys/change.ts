/** Adds and removes public keys of users and repositories. */
import { hash } from 'node:crypto'
import { isRefusal, Refused } from '../../errors/refusal.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import { idsStream } from '../../events/streams.ts'
import type { DeployKeyDocument, SshKeyDocument } from '../../projections/models/keys/keys.fold.ts'
import type { Services } from '../../services/services.ts'
import { deployKeys, sshKeys } from '../execution/aggregates.ts'
import { type CommandContext, executedAt } from '../execution/command-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import {
  decideAddDeployKey,
  decideAddSshKey,
  decideRemoveDeployKey,
  decideRemoveSshKey,
} from './keys.decider.ts'
import { sshKeyOf } from './ssh-key.ts'

export interface NewKey {
  title: string
  key: string
  readOnly: boolean
}

/** Returns the part of a stream's name that identifies a key. */
const digestOf = ({ fingerprint }: { fingerprint: string }) => hash('sha256', fingerprint, 'hex').slice(0, 40)

async function keyData(services: Services, context: CommandContext, { title, key, readOnly }: NewKey) {
  const read = sshKeyOf(key)
  if (isRefusal(read)) throw new Refused(read)
  return { keyId: await takeNumber(services, context, idsStream('key')), title, readOnly, ...read }
}

/** @throws Refused (unprocessable) for an invalid or used key */
export async function addSshKey(
  services: Services,
  context: CommandContext,
  user: AccountRef,
  wanted: NewKey,
): Promise<SshKeyDocument> {
  const data = { ...(await keyData(services, context, wanted)), user }
  const { sshKeys: view } = services.views
  const others = {
    count: await view.count({ userId: user.id }),
    hasTitle: (await view.count({ userId: user.id, title: data.title })) > 0,
  }
  await sshKeys.change(services, context, digestOf(data), 'add key', (before) =>
    decideAddSshKey(before, data, others),
  )
  // Not from the state: a retried request may find the key with another user.
  const { keyId: id, title, key, fingerprint, readOnly } = data
  return { id, title, key, fingerprint, readOnly, userId: user.id, createdAt: executedAt(context) }
}

export async function removeSshKey(
  services: Services,
  context: CommandContext,
  key: Pick<SshKeyDocument, 'id' | 'fingerprint'>,
): Promise<void> {
  await sshKeys.change(services, context, digestOf(key), `remove key ${key.id}`, (state) =>
    decideRemoveSshKey(state, key.id),
  )
}

/** @throws Refused (unprocessable) for an invalid key, and for one that the repository has */
export async function addDeployKey(
  services: Services,
  context: CommandContext,
  repoId: number,
  wanted: NewKey,
): Promise<DeployKeyDocument> {
  const data = { ...(await keyData(services, context, wanted)), repoId }
  const { deployKeys: view } = services.views
  const others = {
    count: await view.count({ repoId }),
    hasTitle: (await view.count({ repoId, title: data.title })) > 0,
  }
  const of = { repoId, digest: digestOf(data) }
  await deployKeys.change(services, context, of, 'add key', (before) =>
    decideAddDeployKey(before, data, others),
  )
  const { keyId: id, title, key, fingerprint, readOnly } = data
  return { id, title, key, fingerprint, readOnly, repoId, createdAt: executedAt(context) }
}

export async function removeDeployKey(
  services: Services,
  context: CommandContext,
  key: DeployKeyDocument,
): Promise<void> {
  const of = { repoId: key.repoId, digest: digestOf(key) }
  await deployKeys.change(services, context, of, `remove key ${key.id}`, (state) =>
    decideRemoveDeployKey(state, key.id),
  )
}
