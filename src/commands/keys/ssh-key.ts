/** Parses public SSH keys in OpenSSH's format: `ssh-ed25519 AAAA… comment`. */
import { createPublicKey, hash, type JsonWebKey } from 'node:crypto'
import { type Refusal, refuse } from '../../errors/refusal.ts'

export interface SshKey {
  /** The key in one line, without surrounding text. */
  key: string
  /** `SHA256:…`, as ssh shows it. */
  fingerprint: string
}

/** Gitea's minimum size of an RSA key, in bits. */
const MIN_RSA_BITS = 3071

const CURVES = {
  nistp256: { crv: 'P-256', bytes: 32 },
  nistp384: { crv: 'P-384', bytes: 48 },
  nistp521: { crv: 'P-521', bytes: 66 },
} as const
const isCurve = (name: string): name is keyof typeof CURVES => Object.hasOwn(CURVES, name)

/** Parses the length-prefixed fields of a key; undefined for wrong lengths. */
function fieldsOf(blob: Buffer): Buffer[] | undefined {
  const fields: Buffer[] = []
  for (let at = 0; at < blob.length; ) {
    if (at + 4 > blob.length) return undefined
    const end = at + 4 + blob.readUInt32BE(at)
    if (end > blob.length) return undefined
    fields.push(blob.subarray(at + 4, end))
    at = end
  }
  return fields
}

const base64url = (bytes: Buffer) => bytes.toString('base64url')

function ed25519([x, ...rest]: readonly Buffer[]): JsonWebKey | undefined {
  return x?.length === 32 && rest.length === 0 ? { kty: 'OKP', crv: 'Ed25519', x: base64url(x) } : undefined
}

function ecdsa(name: string, [curve, point, ...rest]: readonly Buffer[]): JsonWebKey | undefined {
  if (!isCurve(name) || curve?.toString() !== name || point === undefined || rest.length > 0) return undefined
  const { crv, bytes } = CURVES[name]
  // An uncompressed point.
  if (point.length !== 1 + 2 * bytes || point[0] !== 4) return undefined
  return {
    kty: 'EC',
    crv,
    x: base64url(point.subarray(1, 1 + bytes)),
    y: base64url(point.subarray(1 + bytes)),
  }
}

function rsa([e, n, ...rest]: readonly Buffer[]): JsonWebKey | undefined {
  return e !== undefined && n !== undefined && rest.length === 0
    ? { kty: 'RSA', e: base64url(e), n: base64url(n) }
    : undefined
}

/** Removes the application, the last field of a key in a security device. */
const withoutPurpose = (fields: readonly Buffer[]) => fields.slice(0, -1)

const JWK_OF: ReadonlyMap<string, (fields: readonly Buffer[]) => JsonWebKey | undefined> = new Map([
  ['ssh-ed25519', ed25519],
  ['ssh-rsa', rsa],
  ...Object.keys(CURVES).map(
    (name) => [`ecdsa-sha2-${name}`, (fields: readonly Buffer[]) => ecdsa(name, fields)] as const,
  ),
  ['sk-ssh-ed25519@openssh.com', (fields) => ed25519(withoutPurpose(fields))],
  ['sk-ecdsa-sha2-nistp256@openssh.com', (fields) => ecdsa('nistp256', withoutPurpose(fields))],
])

const problem = (reason: string) => refuse.unprocessable(`key: ${reason}`)

/** Parses a public key. */
export function sshKeyOf(text: string): SshKey | Refusal {
  const [, type = '', base64 = '', comment = ''] =
    /^(\S+)[ \t]+([A-Za-z0-9+/]+={0,2})(?:[ \t]+([^\r\n]*))?$/.exec(text.trim()) ?? []
  const jwkOf = JWK_OF.get(type)
  if (type === '') return problem('is not a public SSH key in one line')
  if (jwkOf === undefined) return problem(`keys of the type ${type.slice(0, 40)} are not supported`)
  const blob = Buffer.from(base64, 'base64')
  const [named, ...fields] = fieldsOf(blob) ?? []
  const jwk = named?.toString() === type ? jwkOf(fields) : undefined
  const bits = jwk === undefined ? undefined : bitsOf(jwk)
  if (bits === undefined) return problem('is damaged')
  if (type === 'ssh-rsa' && bits < MIN_RSA_BITS) {
    return problem(`an RSA key needs at least ${MIN_RSA_BITS} bits, and this one has ${bits}`)
  }
  const digest = hash('sha256', blob, 'base64').replace(/=+$/, '')
  const key = [type, blob.toString('base64'), ...(comment === '' ? [] : [comment.trim()])].join(' ')
  return { key, fingerprint: `SHA256:${digest}` }
}

/** Returns the size of the key, in bits; undefined for an invalid key, such as a point off its curve. */
function bitsOf(jwk: JsonWebKey): number | undefined {
  try {
    const { asymmetricKeyDetails } = createPublicKey({ key: jwk, format: 'jwk' })
    return asymmetricKeyDetails?.modulusLength ?? 0
  } catch {
    return undefined
  }
}
