/** Passwords as scrypt hashes. Hashing is slow on purpose: only so many at once, and only so many waiting. */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { Refused, refuse } from '../refusal.ts'
import { createSlots } from '../turns.ts'

export const MIN_PASSWORD = 8
/** A password is hashed whole; this bounds the work before it. */
export const MAX_PASSWORD = 1024

export interface Cost {
  N: number
  r: number
  p: number
}

/** OWASP's least for 16 MiB of memory each. */
const COST: Cost = { N: 16384, r: 8, p: 5 }
const SALT_BYTES = 16
const HASH_BYTES = 32

/** Two of libuv's four threads: files and name look-ups always find one free. */
const slots = createSlots(2)
const MAX_WAITING = 100
let waiting = 0

/**
 * The hash with all that is needed to check a password against it: `scrypt$N$r$p$salt$hash`.
 * @throws Refused (too many requests) when too many passwords wait to be hashed already
 */
export async function hashPassword(password: string, cost: Cost = COST): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const hash = await derive(password, salt, HASH_BYTES, cost)
  const { N, r, p } = cost
  return ['scrypt', N, r, p, salt.toString('base64'), hash.toString('base64')].join('$')
}

/** Whether it is the password, in a time that does not tell how much of it is right. */
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

/** A hash that no password has, for logins that do not exist: checking it takes as long as a real one. */
export const NOBODYS_HASH = [
  'scrypt',
  COST.N,
  COST.r,
  COST.p,
  randomBytes(SALT_BYTES).toString('base64'),
  randomBytes(HASH_BYTES).toString('base64'),
].join('$')

async function derive(password: string, salt: Buffer, length: number, cost: Cost): Promise<Buffer> {
  if (waiting >= MAX_WAITING)
    throw new Refused(refuse.tooManyRequests('too many passwords to check; try again'))
  waiting += 1
  const give = await slots.take()
  try {
    // Gitea's clients may type the same characters in another normal form.
    return await scryptAsync(password.normalize('NFKC'), salt, length, cost)
  } finally {
    waiting -= 1
    give()
  }
}

function scryptAsync(password: string, salt: Buffer, length: number, cost: Cost): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password, salt, length, { ...cost, maxmem: 64 * 1024 * 1024 }, (error, key) =>
      error === null ? resolve(key) : reject(error),
    )
  })
}
