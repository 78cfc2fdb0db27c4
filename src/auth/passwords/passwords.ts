/** Passwords as scrypt hashes. Hashing is slow on purpose, so its queue is limited. */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { scryptHash } from './hashing.ts'

export const MIN_PASSWORD = 8
/** In characters. It limits the work of normalizing and hashing a password. */
export const MAX_PASSWORD = 1024

export interface Cost {
  /** A power of two. A check takes 128 * N * r bytes, and time for N * r * p. */
  N: number
  r: number
  p: number
}

/** OWASP's minimum for scrypt with 16 MiB of memory. */
const COST: Cost = { N: 16384, r: 8, p: 5 }
let costOfNewHashes = COST

/** Sets the cost of new hashes of this process. Tests lower it. */
export function makeHashesWith(cost: Cost): void {
  costOfNewHashes = cost
}

/** Memory limit, in bytes. A stored hash that needs more is damaged. */
const MAX_MEMORY = 512 * 1024 * 1024
const SALT_BYTES = 16
const HASH_BYTES = 32

const MAX_WAITING = 100
let waiting = 0

/**
 * The hash of a password, with the parameters for checking it: `scrypt$N$r$p$salt$hash`.
 * @throws Refused (too many requests) when too many passwords are waiting
 */
export async function hashPassword(password: string, cost: Cost = costOfNewHashes): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const hash = await derive(password, salt, HASH_BYTES, cost)
  return storedForm(cost, salt, hash)
}

function storedForm({ N, r, p }: Cost, salt: Buffer, hash: Uint8Array): string {
  return ['scrypt', N, r, p, salt.toString('base64'), Buffer.from(hash).toString('base64')].join('$')
}

/** Whether the password is correct, in constant time. */
export async function isPassword(password: string, stored: string): Promise<boolean> {
  const { cost, salt, hash } = partsOf(stored)
  return timingSafeEqual(await derive(password, salt, hash.length, cost), hash)
}

/** Whether a stored hash costs less than a new one would, in memory or in time. Then it should be made again. */
export function isWeaker(stored: string, cost: Cost = costOfNewHashes): boolean {
  const { N, r, p } = partsOf(stored).cost
  return N * r < cost.N * cost.r || N * r * p < cost.N * cost.r * cost.p
}

function partsOf(stored: string): { cost: Cost; salt: Buffer; hash: Buffer } {
  const [kind, N, r, p, salt, hash] = stored.split('$')
  if (kind !== 'scrypt' || salt === undefined || hash === undefined) {
    throw new Error('a stored password hash has an unknown format')
  }
  return {
    cost: { N: Number(N), r: Number(r), p: Number(p) },
    salt: Buffer.from(salt, 'base64'),
    hash: Buffer.from(hash, 'base64'),
  }
}

const [DUMMY_SALT, DUMMY] = [randomBytes(SALT_BYTES), randomBytes(HASH_BYTES)]

/** Returns a hash for unknown logins that no password matches. A check of it takes as long as of a new hash. */
export const dummyHash = () => storedForm(costOfNewHashes, DUMMY_SALT, DUMMY)

async function derive(password: string, salt: Buffer, length: number, cost: Cost): Promise<Uint8Array> {
  if (waiting >= MAX_WAITING) {
    limitReached('password_checks')
    throw new Refused(refuse.tooManyRequests('too many passwords to check; try again'))
  }
  waiting += 1
  try {
    // Keyboards and clients may send the same characters in different Unicode forms.
    const normal = password.normalize('NFKC')
    const options = { ...cost, maxmem: MAX_MEMORY }
    return await scryptHash({ password: normal, salt, length, options })
  } finally {
    waiting -= 1
  }
}
