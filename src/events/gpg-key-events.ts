/** Public keys of OpenPGP, which users say are theirs. */
import type { AccountRef } from './refs.ts'

/** A primary key, or a subkey of it. */
export interface GpgPartData {
  /** 16 hexadecimal digits, capitals: what gpg calls the long id of a key. */
  longId: string
  /** The packet of the key, base64. */
  publicKey: string
  /** ISO 8601: when the key was made. */
  madeAt: string
  canSign: boolean
  canEncrypt: boolean
}

/** What a key says of itself. */
export interface GpgKeyData {
  primary: GpgPartData
  subkeys: GpgPartData[]
  /** The addresses that the primary key certifies, in small letters. */
  emails: string[]
  /** ISO 8601; null: never. */
  expiresAt: string | null
  /** The whole key as text. */
  armored: string
}

/** Which key an event is about: its id, unique on the server, and its owner. */
interface KeyRef {
  keyId: number
  user: AccountRef
}

/** `gpg-key-<long id>`: so a key has one owner. */
export type GpgKeyEvent =
  /** `verified`: the owner has shown that the private key is theirs, by a signature. */
  | { type: 'GpgKeyAdded'; data: KeyRef & GpgKeyData & { verified: boolean } }
  | { type: 'GpgKeyVerified'; data: KeyRef }
  | { type: 'GpgKeyRemoved'; data: KeyRef & { longId: string } }
