/** The arguments of `mergelog verify` about signed checkpoints. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { type Checkpoint, originProblem, parseCheckpoint } from '../domain/transparency/checkpoint.ts'
import {
  parseNote,
  parseVerifierKey,
  signatureProblem,
  type VerifierKey,
} from '../domain/transparency/signed-note.ts'
import { CommandFailed, WrongUse } from './explain.ts'

/** Reads a verifier key, or the file that has it. @throws WrongUse */
export async function verifierKeyArgument(given: string): Promise<VerifierKey> {
  const found = existsSync(given) ? await readFile(given, 'utf8') : given
  const key = parseVerifierKey(found.trim())
  if (key !== undefined) return key
  throw new WrongUse('--key: must be a verifier key as "mergelog log-key" prints it, or a file with one')
}

/**
 * Reads a checkpoint from a file, or from standard input for `-`. With a key, the key must have signed it.
 * @throws WrongUse for a file that cannot be read or is not a checkpoint
 * @throws CommandFailed for a checkpoint that the key did not sign
 */
export async function checkpointArgument(file: string, key: VerifierKey | undefined): Promise<Checkpoint> {
  const read = file === '-' ? text(process.stdin) : readFile(file, 'utf8')
  const note = parseNote(
    await read.catch((error: Error) => {
      throw new WrongUse(`--since: cannot be read: ${error.message}`, { cause: error })
    }),
  )
  const checkpoint = note && parseCheckpoint(note.text)
  if (note === undefined || checkpoint === undefined) {
    throw new WrongUse('--since: must be a signed checkpoint, as /api/v1/log/checkpoint returns it')
  }
  const problem = key && (signatureProblem(note, key) ?? originProblem(checkpoint, key))
  if (problem === undefined) return checkpoint
  throw new CommandFailed(`the checkpoint in ${file === '-' ? 'the input' : file} is not genuine: ${problem}`)
}
