/** Public keys: SSH keys of users and repositories, and OpenPGP keys. */
import { type Static, Type } from 'typebox'
import { AccountRef, type EventsOf, Flag, OrNull, Text, Whole } from './parts.ts'

/** A public key of SSH. */
const KeyData = Type.Object({
  /** Unique on the server. */
  keyId: Whole,
  title: Text,
  /** In OpenSSH's format. */
  key: Text,
  /** `SHA256:…` */
  fingerprint: Text,
  readOnly: Flag,
})
export type KeyData = Static<typeof KeyData>

const SshKey = Type.Object({ ...KeyData.properties, user: AccountRef })

/** `ssh-key-<digest>`: of the fingerprint. */
export const sshKeyEvents = { SshKeyAdded: SshKey, SshKeyRemoved: SshKey }
export type SshKeyEvent = EventsOf<typeof sshKeyEvents>

const DeployKey = Type.Object({ ...KeyData.properties, repoId: Whole })

/** `deploy-key-<repoId>.<digest>` */
export const deployKeyEvents = { DeployKeyAdded: DeployKey, DeployKeyRemoved: DeployKey }
export type DeployKeyEvent = EventsOf<typeof deployKeyEvents>

/** An OpenPGP primary key, or a subkey. */
const GpgPartData = Type.Object({
  /** gpg's long key id: 16 hexadecimal digits in upper case. */
  longId: Text,
  /** The packet of the key, base64. */
  publicKey: Text,
  /** ISO 8601: creation time in the key. */
  madeAt: Text,
  canSign: Flag,
  canEncrypt: Flag,
})
export type GpgPartData = Static<typeof GpgPartData>

/** A parsed public key. */
const GpgKeyData = Type.Object({
  primary: GpgPartData,
  subkeys: Type.Array(GpgPartData),
  /** The addresses that the primary key certifies, in lower case. */
  emails: Type.Array(Text),
  /** ISO 8601; null: never. */
  expiresAt: OrNull(Text),
  /** The whole key as text. */
  armored: Text,
})
export type GpgKeyData = Static<typeof GpgKeyData>

/** The key of an event: its id, unique on the server, and its owner. */
const ofGpgKey = { keyId: Whole, user: AccountRef }

/** `gpg-key-<long id>`: a key has one owner. */
export const gpgKeyEvents = {
  /** `verified`: the owner has proved possession of the private key by a signature. */
  GpgKeyAdded: Type.Object({ ...ofGpgKey, ...GpgKeyData.properties, verified: Flag }),
  GpgKeyVerified: Type.Object(ofGpgKey),
  GpgKeyRemoved: Type.Object({ ...ofGpgKey, longId: Text }),
}
export type GpgKeyEvent = EventsOf<typeof gpgKeyEvents>
