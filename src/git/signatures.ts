/** SSH signatures of commits: making them, and finding the commits that have no good one. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import type { GitConfig } from './environment.ts'
import { GitUnavailable, SigningFailed } from './errors.ts'
import { checkedId } from './names.ts'
import { gitOutput, sshKeygen } from './run.ts'

/** Whose signatures are good. Without either nobody's is. */
export interface TrustedKeys {
  /** Path of a file in the form of ssh-keygen's ALLOWED SIGNERS. */
  allowedSigners?: string | undefined
  /** Absolute path of a private key; what its public half verifies is good. */
  signingKey?: string | undefined
}

/** Commits are signed for this purpose; a signature made for another one (a file, a login) counts for nothing. */
const NAMESPACE = 'git'
const MAX_SIGNERS_BYTES = 4 * 1024 * 1024
/** A commit costs two processes that calculate for milliseconds. */
const MILLISECONDS_PER_COMMIT = 200

/**
 * A commit object's content, signed: git's `gpgsig` header is added to it.
 *
 * @throws SigningFailed when the key can't be used
 */
export async function signedContent(content: Buffer, signingKey: string): Promise<Buffer> {
  if (!isAbsolute(signingKey)) throw new SigningFailed(`the path ${signingKey} is not absolute`)
  const { code, stdout, stderr } = await sshKeygen(['-Y', 'sign', '-n', NAMESPACE, '-f', signingKey], {
    input: content,
  })
  const signature = stdout.toString('latin1').trimEnd()
  if (code !== 0 || !signature.startsWith('-----BEGIN SSH SIGNATURE-----')) {
    throw new SigningFailed(lastWords(stderr))
  }
  const headersEnd = content.indexOf('\n\n') + 1
  return Buffer.concat([
    content.subarray(0, headersEnd),
    Buffer.from(`gpgsig ${signature.replaceAll('\n', '\n ')}\n`),
    content.subarray(headersEnd),
  ])
}

/** Why commits can't be signed with a key, or undefined when they can. For a check at start. */
export async function signingKeyProblem(path: string): Promise<string | undefined> {
  if (!isAbsolute(path)) return 'the path is not absolute'
  try {
    await publicKey(path)
    await signedContent(Buffer.from('trial\n\n'), path)
    return undefined
  } catch (error) {
    if (error instanceof SigningFailed || error instanceof GitUnavailable) return error.message
    throw error
  }
}

/** The public half of a private key, as it stands in `authorized_keys`, without its comment. */
async function publicKey(signingKey: string): Promise<string> {
  if (!isAbsolute(signingKey)) throw new SigningFailed(`the path ${signingKey} is not absolute`)
  // An empty passphrase: a key that has another one fails instead of asking for it.
  const { code, stdout, stderr } = await sshKeygen(['-y', '-P', '', '-f', signingKey])
  const [type, key] = stdout.toString('latin1').trim().split(' ')
  if (code === 0 && type !== undefined && key !== undefined) return `${type} ${key}`
  if (stderr.includes('incorrect passphrase')) throw new SigningFailed('the key has a passphrase')
  throw new SigningFailed(lastWords(stderr))
}

function lastWords(stderr: string): string {
  return stderr.trim().split(/\r?\n/).at(-1)?.slice(-500) || 'ssh-keygen gave no reason'
}

/**
 * Those of the commits, in the order given, that don't carry a good SSH signature by a trusted key: unsigned,
 * changed after signing, signed by a stranger or with PGP, and ids that are no commit of the repository.
 *
 * @throws SigningFailed when the signing key can't be read, GitUnavailable when the allowed signers can't
 */
export async function unsignedCommits(
  dir: string,
  shas: readonly string[],
  keys: TrustedKeys,
): Promise<string[]> {
  const asked = shas.map(checkedId)
  if (asked.length === 0 || !trustsAnyone(keys)) return asked
  const directory = await mkdtemp(join(tmpdir(), 'git-signers-'))
  try {
    const output = await gitOutput(
      [
        'log',
        '--no-walk=unsorted',
        '--ignore-missing',
        '--no-show-signature',
        `--format=${VERDICT}`,
        '--stdin',
      ],
      {
        dir,
        config: verificationConfig(await writeTrustedKeys(directory, keys)),
        input: asked.map((sha) => `${sha}\n`).join(''),
        timeout: 60_000 + MILLISECONDS_PER_COMMIT * asked.length,
      },
    )
    const good = new Set<string>()
    for (const line of output.toString('latin1').split('\n')) {
      const [verdict, sha = ''] = line.split(' ')
      if (verdict === GOOD) good.add(sha)
    }
    return asked.filter((sha) => !good.has(sha))
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** The format of `git log` by which commits are judged: a line for each, the verdict and the id. */
export const VERDICT = '%G? %H'
/** git's verdict on a signature that is right and by a trusted key. */
export const GOOD = 'G'

export function trustsAnyone({ allowedSigners, signingKey }: TrustedKeys): boolean {
  return allowedSigners !== undefined || signingKey !== undefined
}

/**
 * Writes all trusted keys to one file in the directory, and gives its path.
 *
 * @throws SigningFailed, GitUnavailable
 */
export async function writeTrustedKeys(
  directory: string,
  { allowedSigners, signingKey }: TrustedKeys,
): Promise<string> {
  const lines: string[] = []
  if (allowedSigners !== undefined) lines.push(await readSigners(allowedSigners))
  if (signingKey !== undefined) lines.push(`server namespaces="${NAMESPACE}" ${await publicKey(signingKey)}`)
  const file = join(directory, 'allowed-signers')
  await writeFile(file, `${lines.join('\n')}\n`, { mode: 0o600 })
  return file
}

async function readSigners(path: string): Promise<string> {
  try {
    const text = await readFile(path, 'utf8')
    if (text.length <= MAX_SIGNERS_BYTES) return text
  } catch (cause) {
    throw new GitUnavailable(`the allowed signers in ${path} can't be read`, { cause })
  }
  throw new GitUnavailable(`the allowed signers in ${path} are more than ${MAX_SIGNERS_BYTES} bytes`)
}

/** Makes git check SSH signatures against the file, and hold all others for bad. */
export function verificationConfig(signersFile: string): GitConfig {
  return [
    ['gpg.ssh.allowedSignersFile', signersFile],
    // The keyring of whoever runs the server vouches for nobody.
    ['gpg.program', 'false'],
    ['gpg.x509.program', 'false'],
  ]
}
