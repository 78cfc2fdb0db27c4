/** Keys of bounded length, for caches that limit their number of entries but not the size of a key. */
import { hash } from 'node:crypto'

const SHORT = 200

/** Returns the key, or its SHA-256 digest if it is long. Clients choose names of any length. */
export const boundedKey = (key: string): string =>
  key.length <= SHORT ? key : hash('sha256', key, 'base64url')
