/** Seals the texts of one event with its own key, and opens them: AES-256-GCM. */
import { createCipheriv, createDecipheriv } from 'node:crypto'
import type { NewEvent } from '../store/event-store.ts'
import { isWellFormed, type Sealed } from './sealed-texts.ts'

export const KEY_BYTES = 32

const CIPHER = 'aes-256-gcm'
/** A nonce must be unique per key. Each key seals one plaintext, so a constant is enough. */
const NONCE = Buffer.alloc(12)
const TAG_BYTES = 16

/** The event that a sealed text is bound to. */
type Identity = Pick<NewEvent, 'id' | 'type'> & { stream: string }

const additionalData = ({ stream, id, type }: Identity) => Buffer.from(`${stream} ${id} ${type}`)

const encodingOf = ({ wide }: { wide?: true }) => (wide ? 'utf16le' : 'utf8')

/** Seals texts. The key must be unused. */
export function seal(
  event: Identity,
  texts: readonly string[],
  { id: key, key: secret }: { id: string; key: Buffer },
): Sealed {
  const form: { wide?: true } = texts.every(isWellFormed) ? {} : { wide: true }
  // Lengths instead of separators: nothing is escaped, so a sealed text stays short.
  const plain = `${texts.map(({ length }) => length).join()}:${texts.join('')}`
  const cipher = createCipheriv(CIPHER, secret, NONCE)
  cipher.setAAD(additionalData(event))
  const parts = [cipher.update(plain, encodingOf(form)), cipher.final(), cipher.getAuthTag()]
  return { key, text: Buffer.concat(parts).toString('base64url'), ...form }
}

/** Opens sealed texts; undefined with another key or event. */
export function openSealed(event: Identity, sealed: Sealed, key: Buffer): string[] | undefined {
  const bytes = Buffer.from(sealed.text, 'base64url')
  if (bytes.length < TAG_BYTES || key.length !== KEY_BYTES) return undefined
  const end = bytes.length - TAG_BYTES
  const decipher = createDecipheriv(CIPHER, key, NONCE)
  decipher.setAAD(additionalData(event))
  decipher.setAuthTag(bytes.subarray(end))
  const opened = decipher.update(bytes.subarray(0, end))
  try {
    decipher.final()
  } catch {
    return undefined
  }
  const plain = opened.toString(encodingOf(sealed))
  const colon = plain.indexOf(':')
  let start = colon + 1
  return plain
    .slice(0, colon)
    .split(',')
    .map((length) => {
      const text = plain.slice(start, start + Number(length))
      start += text.length
      return text
    })
}
