/** Reads public keys of OpenPGP, and checks signatures by them. It runs in a thread of its own: see `gpg.ts`. */
import {
  createMessage,
  enums,
  type Key,
  PacketList,
  readKey,
  readSignature,
  type Subkey,
  type User,
  verify,
} from 'openpgp'

/** A primary key, or a subkey of it. */
interface GpgKeyPart {
  /** 16 hexadecimal digits, capitals: what gpg calls the long id of a key. */
  longId: string
  /** The packet of the key, base64. */
  publicKey: string
  /** ISO 8601: when the key was made. */
  madeAt: string
  canSign: boolean
  canEncrypt: boolean
}

/** What a public key says of itself. */
export interface GpgKey {
  primary: GpgKeyPart
  /** Those that the primary key binds, and that are neither expired nor revoked. */
  subkeys: GpgKeyPart[]
  /** The addresses that the primary key certifies, in small letters. */
  emails: string[]
  /** ISO 8601; null: never. */
  expiresAt: string | null
  /** The key as text, without what others say of it. */
  armored: string
}

/** A reason for people why a text is no key that can be added. */
export interface GpgKeyProblem {
  problem: string
}

/** What a key may have at most. More takes long, and nobody has it. */
const MAX_USERS = 50
const MAX_SUBKEYS = 50
const MAX_BITS = 8192

const ENCRYPTS_ONLY: ReadonlySet<enums.publicKey> = new Set([
  enums.publicKey.rsaEncrypt,
  enums.publicKey.elgamal,
  enums.publicKey.ecdh,
  enums.publicKey.x25519,
  enums.publicKey.x448,
])
const ENCRYPTS_TOO: ReadonlySet<enums.publicKey> = new Set([enums.publicKey.rsaEncryptSign])

/** A key or subkey by its algorithm, as Gitea does: not by the flags that its owner gives it. */
function partOf(key: Key | Subkey): GpgKeyPart {
  const { keyPacket } = key
  const packets = new PacketList<typeof keyPacket>()
  packets.push(keyPacket)
  const { algorithm } = keyPacket
  return {
    longId: key.getKeyID().toHex().toUpperCase(),
    publicKey: Buffer.from(packets.write()).toString('base64'),
    madeAt: key.getCreationTime().toISOString(),
    canSign: algorithm !== null && !ENCRYPTS_ONLY.has(algorithm),
    canEncrypt: algorithm !== null && (ENCRYPTS_ONLY.has(algorithm) || ENCRYPTS_TOO.has(algorithm)),
  }
}

const reasonOf = (error: unknown) => (error instanceof Error ? error.message.slice(0, 200) : 'it is damaged')

/** Those for which the check does not throw. */
async function good<T>(all: readonly T[], check: (one: T) => Promise<unknown>): Promise<T[]> {
  const found: T[] = []
  for (const one of all) {
    try {
      await check(one)
      found.push(one)
    } catch {
      // The library throws for whatever it does not accept, and says no more of it.
    }
  }
  return found
}

/** A public key, or why the text is none. */
export async function readGpgKey(armored: string): Promise<GpgKey | GpgKeyProblem> {
  try {
    const key = await readKey({ armoredKey: armored })
    return problemOf(key) ?? (await keyOf(key))
  } catch (error) {
    return { problem: `is no public key of OpenPGP: ${reasonOf(error)}` }
  }
}

function problemOf(key: Key): GpgKeyProblem | undefined {
  if (key.isPrivate()) return { problem: 'is a private key: keep it for yourself, and send the public one' }
  if (key.users.length > MAX_USERS) return { problem: `has more than ${MAX_USERS} user ids` }
  if (key.subkeys.length > MAX_SUBKEYS) return { problem: `has more than ${MAX_SUBKEYS} subkeys` }
  const isLarge = [key, ...key.subkeys].some((part) => (part.getAlgorithmInfo().bits ?? 0) > MAX_BITS)
  return isLarge ? { problem: `has more than ${MAX_BITS} bits` } : undefined
}

async function keyOf(key: Key): Promise<GpgKey> {
  // Photos, and what others say of the key, are not needed, and may be of any length.
  key.users = key.users.filter(({ userID }) => userID !== null)
  for (const user of key.users) user.otherCertifications = []
  const users = await good(key.users, (user: User) => user.verify())
  const subkeys = await good(key.subkeys, (subkey) => subkey.verify())
  const emails = users.map(({ userID }) => userID?.email.trim().toLowerCase() ?? '')
  const expires = await key.getExpirationTime()
  return {
    primary: partOf(key),
    subkeys: subkeys.map(partOf),
    emails: [...new Set(emails)].filter((email) => email !== '' && email.length <= 254),
    expiresAt: expires instanceof Date ? expires.toISOString() : null,
    armored: key.armor(),
  }
}

/** Whether a detached signature of a text is a good one by the key, or by one of its subkeys. */
export async function isSignedBy(armored: string, text: Uint8Array, signature: string): Promise<boolean> {
  try {
    const key = await readKey({ armoredKey: armored })
    const read = await readSignature({ armoredSignature: signature })
    // One signature is what gpg makes; a thousand would take long.
    if (read.packets.length !== 1) return false
    const message = await createMessage({ binary: text })
    const { signatures } = await verify({ message, signature: read, verificationKeys: key })
    return (await signatures[0]?.verified) === true
  } catch {
    return false
  }
}
