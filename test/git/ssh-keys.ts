/** SSH keys for tests that sign. */
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'

export interface TestKey {
  path: string
  /** Path of an allowed-signers file with only this key. */
  signers: string
}

/** Makes an Ed25519 key pair at `path`. */
export async function makeKey(path: string, passphrase = ''): Promise<TestKey> {
  await promisify(execFile)('ssh-keygen', ['-q', '-t', 'ed25519', '-N', passphrase, '-C', 'test', '-f', path])
  const signers = `${path}.signers`
  await writeFile(signers, `someone@example.org ${await readFile(`${path}.pub`, 'utf8')}`)
  return { path, signers }
}
