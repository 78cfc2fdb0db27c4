/** Encrypts text that a client keeps for the server and can neither read nor change: AES-256 in GCM. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Derives a key for one purpose from a secret that all nodes know. */
export function keyFor(purpose: string, secret: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', `mergelog ${purpose}`, 32))
}

/** Seals a text, as base64url. */
export function seal(text: string, key: Buffer): string {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url')
}

/** Returns the text; undefined when it was not sealed with this key. */
export function unseal(sealed: string, key: Buffer): string | undefined {
  const bytes = Buffer.from(sealed, 'base64url')
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
  decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
  try {
    return (
      decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
    )
  } catch {
    return undefined
  }
}
