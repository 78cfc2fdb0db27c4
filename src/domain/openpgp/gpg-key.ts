/** Parses public OpenPGP keys, and verifies signatures. Runs in a thread, see `gpg.ts`. */
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

/** A primary key or a subkey. */
interface GpgKeyPart {
  /** gpg's long id of a key: 16 hexadecimal digits, capitals. */
  longId: string
  /** The packet of the key, base64. */
  publicKey: string
  /** Creation time of the key, ISO 8601. */
  madeAt: string
  canSign: boolean
  canEncrypt: boolean
}

/** A parsed public key. */
export interface GpgKey {
  primary: GpgKeyPart
  /** Subkeys that the primary key binds and that are neither expired nor revoked. */
  subkeys: GpgKeyPart[]
  /** Addresses that the primary key certifies, in lower case. */
  emails: string[]
  /** ISO 8601; null: never. */
  expiresAt: string | null
  /** The key as text, without third-party certifications. */
  armored: string
}

/** The reason why a key cannot be added, for users. */
export interface GpgKeyProblem {
  problem: string
}

/** Limits of a key. Larger ones take long and are not used in practice. */
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

/** Derives the capabilities from the algorithm, as Gitea does, and not from the key's flags. */
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

/** Returns the items for which the check does not throw. */
async function good<T>(all: readonly T[], check: (one: T) => Promise<unknown>): Promise<T[]> {
  const found: T[] = []
  for (const one of all) {
    try {
      await check(one)
      found.push(one)
    } catch {
      // The library throws for invalid items.
    }
  }
  return found
}

/** Parses a public key, or returns the problem. */
export async function readGpgKey(armored: string): Promise<GpgKey | GpgKeyProblem> {
  try {
    const key = await readKey({ armoredKey: armored })
    return problemOf(key) ?? (await keyOf(key))
  } catch (error) {
    return { problem: `is not a public OpenPGP key: ${reasonOf(error)}` }
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
  // Photos and third-party certifications are not needed, and may have any size.
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

/** Verifies a detached signature of a text by the key or one of its subkeys. */
export async function isSignedBy(armored: string, text: Uint8Array, signature: string): Promise<boolean> {
  try {
    const key = await readKey({ armoredKey: armored })
    const read = await readSignature({ armoredSignature: signature })
    // gpg makes one signature; a thousand would take long.
    if (read.packets.length !== 1) return false
    const message = await createMessage({ binary: text })
    const { signatures } = await verify({ message, signature: read, verificationKeys: key })
    return (await signatures[0]?.verified) === true
  } catch {
    return false
  }
}
