/** Public OpenPGP keys and their signatures. The library runs in a thread: a hostile key may take long. */

import { taskThread } from '../../concurrency/task-thread.ts'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { GpgKey, GpgKeyProblem } from './gpg-key.ts'

export type GpgTask =
  | { kind: 'read'; armored: string }
  | { kind: 'check'; armored: string; texts: Uint8Array[]; signature: string }
export type GpgAnswer = { kind: 'read'; key: GpgKey | GpgKeyProblem } | { kind: 'check'; good: boolean }

const DEADLINE_MS = 2000

const thread = taskThread<GpgTask, GpgAnswer>({
  path: 'domain/openpgp/gpg-thread',
  name: 'openpgp',
  deadlineMs: DEADLINE_MS,
})

/** Maximum length of a key or a signature, in characters. */
export const MAX_ARMORED = 65_536

async function ask(client: string, task: GpgTask): Promise<GpgAnswer | undefined> {
  const answer = await thread.run(client, task)
  if (answer === undefined) limitReached('openpgp_time')
  return answer
}

/**
 * Parses the public key in a text. `client` is the key of the queue.
 * @throws Refused (unprocessable) for an invalid key; SlotsFull when the queue is full
 */
export async function gpgKeyOf(client: string, armored: string): Promise<GpgKey> {
  const answer = await ask(client, { kind: 'read', armored })
  const key = answer?.kind === 'read' ? answer.key : { problem: 'takes too long to read' }
  if ('problem' in key) throw new Refused(refuse.unprocessable(`armored_public_key: ${key.problem}`))
  return key
}

/**
 * Verifies a detached signature of one of the texts by the key or one of its subkeys.
 * @throws SlotsFull when the queue is full
 */
export async function isGoodSignature(
  client: string,
  armored: string,
  texts: readonly Uint8Array[],
  signature: string,
): Promise<boolean> {
  const answer = await ask(client, { kind: 'check', armored, texts: [...texts], signature })
  return answer?.kind === 'check' && answer.good
}
