/** `mergelog log-key`: prints the key that verifies the checkpoints of the log. */
import { createPublicKey } from 'node:crypto'
import type { Command } from 'commander'
import { loadConfig } from '../../config/config.ts'
import { formatVerifierKey, verifierKeyOf } from '../../domain/transparency/signed-note.ts'
import { readLogSigner } from '../../server/start-checks.ts'
import { CommandFailed } from '../explain.ts'
import { usage } from '../help.ts'

async function printLogKey(): Promise<void> {
  const signer = await readLogSigner(loadConfig(process.env))
  if (signer === undefined) {
    throw new CommandFailed(
      'LOG_SIGNING_KEY is not set: make a key with "openssl genpkey -algorithm ed25519 -out log.pem"',
    )
  }
  console.log(formatVerifierKey(verifierKeyOf(signer.origin, createPublicKey(signer.privateKey))))
}

export function addLogKey(program: Command): void {
  program
    .command('log-key')
    .description('print the public key that verifies signed checkpoints of the log')
    .addHelpText(
      'after',
      usage(
        [
          'openssl genpkey -algorithm ed25519 -out log.pem',
          'LOG_SIGNING_KEY=log.pem mergelog log-key > log.pub',
        ],
        ['LOG_SIGNING_KEY', 'PUBLIC_URL'],
      ),
    )
    .action(printLogKey)
}
