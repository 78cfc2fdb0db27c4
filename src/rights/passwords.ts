/** Passwords as scrypt hashes. Hashing is slow on purpose, so running and waiting hashes are limited in number. */
import { type BinaryLike, randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { limitReached } from '../limits.ts'
import { Refused, refuse } from '../refusal.ts'
import { createSlots } from '../turns.ts'

export const MIN_PASSWORD = 8
/** In characters. It limits the work of normalizing and hashing a password. */
export const MAX_PASSWORD = 1024

/** OWASP's minimum for scrypt with 16 MiB of memory. */
const COST = { N: 16384, r: 8, p: 5 }
type Cost = typeof COST
const SALT_BYTES = 16
const HASH_BYTES = 32

/** Two of libuv's four threads: two stay free for files and DNS. */
const slots = createSlots(2)
const MAX_WAITING = 100
let waiting = 0

/**
 * The hash of a password, with the parameters for checking it: `scrypt$N$r$p$salt$hash`.
 * @throws Refused (too many requests) when too many passwords are waiting
 */
export async function hashPassword(password: string, cost: Cost = COST): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const hash = await derive(password, salt, HASH_BYTES, cost)
  return storedForm(cost, salt, hash)
}

function storedForm({ N, r, p }: Cost, salt: Buffer, hash: Buffer): string {
  return ['scrypt', N, r, p, salt.toString('base64'), hash.toString('base64')].join('$')
}

/** Whether the password is right. The time it takes does not show how much of it is right. */
export async function isPassword(password: string, stored: string): Promise<boolean> {
  const [kind, N, r, p, salt, hash] = stored.split('$')
  if (kind !== 'scrypt' || salt === undefined || hash === undefined) {
    throw new Error('a stored password hash has an unknown format')
  }
  const expected = Buffer.from(hash, 'base64')
  const cost = { N: Number(N), r: Number(r), p: Number(p) }
  const actual = await derive(password, Buffer.from(salt, 'base64'), expected.length, cost)
  return timingSafeEqual(actual, expected)
}

/** A hash of no password, for unknown logins: checking it takes as long as checking a real one. */
export const DUMMY_HASH = storedForm(COST, randomBytes(SALT_BYTES), randomBytes(HASH_BYTES))

const scryptAsync = promisify<BinaryLike, BinaryLike, number, ScryptOptions, Buffer>(scrypt)

async function derive(password: string, salt: Buffer, length: number, cost: Cost): Promise<Buffer> {
  if (waiting >= MAX_WAITING) {
    limitReached('password_checks')
    throw new Refused(refuse.tooManyRequests('too many passwords to check; try again'))
  }
  waiting += 1
  const give = await slots.take()
  try {
    // Keyboards and clients may send the same characters in different Unicode forms.
    return await scryptAsync(password.normalize('NFKC'), salt, length, { ...cost, maxmem: 64 * 1024 * 1024 })
  } finally {
    waiting -= 1
    give()
  }
}
