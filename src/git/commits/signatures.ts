/** Signs commits with SSH keys, and finds the commits without a good signature. */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { GitConfig } from '../process/environment.ts'
import { GitUnavailable, SigningFailed } from '../process/errors.ts'
import { type GitOptions, gitLines, sshKeygen } from '../process/run.ts'
import { makeTemporaryDirectory } from '../process/temporary-directories.ts'
import { checkedId } from '../refs/names.ts'

/** The keys whose signatures are good. When neither is set, no signature is good. */
export interface TrustedKeys {
  /** Path of a file in the format of ssh-keygen's ALLOWED SIGNERS. */
  allowedSigners?: string | undefined
  /** Absolute path of a private key. Signatures that its public key verifies are good. */
  signingKey?: string | undefined
}

/** The purpose of the signatures. A signature for another purpose (a file, a login) is not good. */
const NAMESPACE = 'git'
const MAX_SIGNERS_BYTES = 4 * 1024 * 1024
/** Time limit for each checked commit: its check starts two processes. */
const MILLISECONDS_PER_COMMIT = 200

/**
 * The signed content of a commit object: adds git's `gpgsig` header to the content.
 * @throws SigningFailed when the key can't be used
 */
export async function signedContent(content: Buffer, signingKey: string): Promise<Buffer> {
  const { code, stdout, stderr } = await sshKeygen(['-Y', 'sign', '-n', NAMESPACE, '-f', signingKey], {
    input: content,
  })
  const signature = stdout.toString('latin1').trimEnd()
  if (code !== 0 || !signature.startsWith('-----BEGIN SSH SIGNATURE-----')) {
    throw new SigningFailed(lastLine(stderr))
  }
  const headersEnd = content.indexOf('\n\n') + 1
  return Buffer.concat([
    content.subarray(0, headersEnd),
    Buffer.from(`gpgsig ${signature.replaceAll('\n', '\n ')}\n`),
    content.subarray(headersEnd),
  ])
}

/** Returns why a key can't sign commits; undefined when it can. For the check at startup. */
export async function signingKeyProblem(path: string): Promise<string | undefined> {
  try {
    await publicKey(path)
    await signedContent(Buffer.from('trial\n\n'), path)
    return undefined
  } catch (error) {
    if (error instanceof SigningFailed || error instanceof GitUnavailable) return error.message
    throw error
  }
}

/** The public key of a private key, in the form of `authorized_keys` without a comment. */
async function publicKey(signingKey: string): Promise<string> {
  // Give an empty passphrase, so that a key with a passphrase fails instead of asking for it.
  const { code, stdout, stderr } = await sshKeygen(['-y', '-P', '', '-f', signingKey])
  const [type, key] = stdout.toString('latin1').trim().split(' ')
  if (code === 0 && type !== undefined && key !== undefined) return `${type} ${key}`
  if (stderr.includes('incorrect passphrase')) throw new SigningFailed('the key has a passphrase')
  throw new SigningFailed(lastLine(stderr))
}

function lastLine(stderr: string): string {
  return stderr.trim().split(/\r?\n/).at(-1)?.slice(-500) || 'ssh-keygen gave no reason'
}

/**
 * Returns the commits without a good SSH signature by a trusted key, in the given order: unsigned, changed after
 * signing, or signed by another key or with PGP. Includes ids that are not commits of the repository.
 * @throws SigningFailed when the signing key can't be read, GitUnavailable when the allowed signers can't
 */
export async function unsignedCommits(
  dir: string,
  shas: readonly string[],
  keys: TrustedKeys,
  options: Pick<GitOptions, 'queue' | 'signal'> = {},
): Promise<string[]> {
  const ids = shas.map(checkedId)
  if (ids.length === 0 || !trustsAnyone(keys)) return ids
  const directory = await makeTemporaryDirectory()
  try {
    const words = ['--no-walk=unsorted', '--ignore-missing', '--no-show-signature', '--stdin']
    const verdicts = await gitLines(['log', ...words, `--format=${VERDICT}`], {
      ...options,
      dir,
      config: verificationConfig(await writeTrustedKeys(directory, keys)),
      input: ids.map((sha) => `${sha}\n`).join(''),
      timeout: 60_000 + MILLISECONDS_PER_COMMIT * ids.length,
    })
    const good = new Set(verdicts)
    return ids.filter((sha) => !good.has(`${GOOD} ${sha}`))
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** The format of `git log` that prints a line for each commit: the verdict on its signature, and its id. */
export const VERDICT = '%G? %H'
/** git's verdict on a correct signature by a trusted key. */
export const GOOD = 'G'

function trustsAnyone({ allowedSigners, signingKey }: TrustedKeys): boolean {
  return allowedSigners !== undefined || signingKey !== undefined
}

/**
 * Writes all trusted keys to one file in the directory. Returns the path of the file.
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

/** Settings that make git check SSH signatures against the file, and treat all other signatures as bad. */
export function verificationConfig(signersFile: string): GitConfig {
  return [['gpg.ssh.allowedSignersFile', signersFile]]
}
