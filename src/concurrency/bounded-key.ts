/** Keys of memories that count their entries, and not how long the keys are. */
import { hash } from 'node:crypto'

const SHORT = 200

/** The key itself, or a digest in the place of a long one: clients may ask for names that are as long as they like. */
export const boundedKey = (key: string): string =>
  key.length <= SHORT ? key : hash('sha256', key, 'base64url')
