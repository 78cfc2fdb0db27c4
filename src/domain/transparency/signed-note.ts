/** Signed notes of C2SP (c2sp.org/signed-note), with Ed25519. */
import { createPublicKey, hash, type KeyObject, sign, verify } from 'node:crypto'

/** The type of Ed25519 signatures in key ids and verifier keys. */
const ED25519 = 1
const KEY_BYTES = 32
const ID_BYTES = 4
/** Maximum length of a note, in characters: witnesses may add large signatures. */
const MAX_NOTE = 1_000_000

/** The public key of a signer, by its name and id. */
export interface VerifierKey {
  name: string
  /** The first four bytes of a hash of name and key, in hexadecimal. */
  id: string
  publicKey: KeyObject
}

/** Whether a text may be the name of a key. */
export const isKeyName = (name: string) => name !== '' && !/[\s+\p{Cc}]/u.test(name)

function typedKey(publicKey: KeyObject): Buffer {
  const { x = '' } = publicKey.export({ format: 'jwk' })
  return Buffer.concat([Buffer.from([ED25519]), Buffer.from(x, 'base64url')])
}

function idOf(name: string, key: Uint8Array): string {
  return hash('sha256', Buffer.concat([Buffer.from(`${name}\n`), key])).slice(0, 2 * ID_BYTES)
}

/** Returns the verifier key of a signer. `publicKey` is an Ed25519 key. */
export function verifierKeyOf(name: string, publicKey: KeyObject): VerifierKey {
  return { name, id: idOf(name, typedKey(publicKey)), publicKey }
}

/** Writes a verifier key: `example.org+530d903a+AekyeRrm…`. */
export const formatVerifierKey = ({ name, id, publicKey }: VerifierKey) =>
  `${name}+${id}+${typedKey(publicKey).toString('base64')}`

/** Reads a verifier key; undefined when the text is none, or its id does not match. */
export function parseVerifierKey(text: string): VerifierKey | undefined {
  const [, name = '', id, base64 = ''] = /^([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(text) ?? []
  const key = bytesOf(base64)
  if (key?.length !== 1 + KEY_BYTES || key[0] !== ED25519 || !isKeyName(name) || idOf(name, key) !== id) {
    return undefined
  }
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: key.subarray(1).toString('base64url') }
  return { name, id, publicKey: createPublicKey({ key: jwk, format: 'jwk' }) }
}

/** Returns the bytes of a text in base64; undefined when it is not in its only valid form. */
function bytesOf(base64: string): Buffer | undefined {
  const bytes = Buffer.from(base64, 'base64')
  return bytes.toString('base64') === base64 ? bytes : undefined
}

/** Signs a text of lines. `name` is the name of the key. */
export function signNote(text: string, name: string, privateKey: KeyObject): string {
  const { id } = verifierKeyOf(name, createPublicKey(privateKey))
  const signature = Buffer.concat([Buffer.from(id, 'hex'), sign(null, Buffer.from(text), privateKey)])
  return `${text}\n— ${name} ${signature.toString('base64')}\n`
}

/** A signed note. Its signatures are not verified yet. */
export interface Note {
  /** The signed text, with its last newline. */
  text: string
  signatures: readonly { name: string; id: string; signature: Uint8Array }[]
}

/** Reads a note; undefined when it is malformed. */
export function parseNote(note: string): Note | undefined {
  const end = note.lastIndexOf('\n\n')
  const hasControl = /[^\P{Cc}\n\u{7f}-\u{9f}]/u.test(note)
  if (end < 0 || !note.endsWith('\n') || note.length > MAX_NOTE || hasControl || !note.isWellFormed()) {
    return undefined
  }
  const signatures: { name: string; id: string; signature: Uint8Array }[] = []
  for (const line of note.slice(end + 2, -1).split('\n')) {
    const [, name = '', base64 = ''] = /^— (\S+) (\S+)$/u.exec(line) ?? []
    const bytes = bytesOf(base64)
    if (!isKeyName(name) || bytes === undefined || bytes.length <= ID_BYTES) return undefined
    const id = bytes.toString('hex', 0, ID_BYTES)
    signatures.push({ name, id, signature: bytes.subarray(ID_BYTES) })
  }
  return { text: note.slice(0, end + 1), signatures }
}

/** Returns why a note is not signed by a key; undefined when it is. */
export function signatureProblem({ text, signatures }: Note, key: VerifierKey): string | undefined {
  const own = signatures.filter(({ name, id }) => name === key.name && id === key.id)
  if (own.length === 0) {
    const others = signatures.map(({ name, id }) => `${name}+${id}`).join(', ')
    return `it is not signed by ${key.name}+${key.id}, but by ${others}`
  }
  const isSigned = own.every(({ signature }) => verify(null, Buffer.from(text), key.publicKey, signature))
  return isSigned ? undefined : `the signature of ${key.name}+${key.id} does not match its text`
}
