/** Public keys of users, and deploy keys of repositories. */
import type { KeyData } from '../../../events/catalog/keys.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface KeyDocument extends Omit<KeyData, 'keyId'> {
  id: number
  createdAt: string
}

export interface SshKeyDocument extends KeyDocument {
  userId: number
}

export interface DeployKeyDocument extends KeyDocument {
  repoId: number
}

const keyOf = (
  { keyId: id, title, key, fingerprint, readOnly }: KeyData,
  createdAt: string,
): KeyDocument => ({
  id,
  title,
  key,
  fingerprint,
  readOnly,
  createdAt,
})

export const sshKeyFold: Fold<SshKeyDocument> = foldOf({
  name: 'ssh_keys',
  indexes: [{ userId: 1, id: 1 }, { fingerprint: 1 }],
  version: 1,
  ids: ({ data }) => [`${data.keyId}`],
  becomes: {
    SshKeyAdded: (_, { data, metadata: { at } }) => ({ ...keyOf(data, at), userId: data.user.id }),
    SshKeyRemoved: () => undefined,
  },
  begins: ['SshKeyAdded'],
})

export const deployKeyFold: Fold<DeployKeyDocument> = foldOf({
  name: 'deploy_keys',
  indexes: [{ repoId: 1, id: 1 }],
  version: 1,
  ids: ({ data }) => [`${data.keyId}`],
  becomes: {
    DeployKeyAdded: (_, { data, metadata: { at } }) => ({ ...keyOf(data, at), repoId: data.repoId }),
    DeployKeyRemoved: () => undefined,
  },
  begins: ['DeployKeyAdded'],
})
