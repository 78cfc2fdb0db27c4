/** The key and the settings of a server that signs its log, for tests. */
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { verifierKeyOf } from '../src/domain/transparency/signed-note.ts'

export const ORIGIN = 'git.example.org/mergelog'

/** Writes a new key to a directory. Returns the settings of a server, and the key that verifies its checkpoints. */
export async function newLogSigner(directory: string) {
  const { privateKey } = generateKeyPairSync('ed25519')
  const file = join(directory, 'log.pem')
  await writeFile(file, privateKey.export({ format: 'pem', type: 'pkcs8' }))
  return {
    settings: { LOG_SIGNING_KEY: file, PUBLIC_URL: `https://${ORIGIN}` },
    signer: { origin: ORIGIN, privateKey },
    key: verifierKeyOf(ORIGIN, createPublicKey(privateKey)),
  }
}
