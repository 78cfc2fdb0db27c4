/** The thread program of `gpg.ts`. */
import { parentPort } from 'node:worker_threads'
import type { GpgAnswer, GpgTask } from './gpg.ts'
import { isSignedBy, readGpgKey } from './gpg-key.ts'

const answerTo = async (task: GpgTask): Promise<GpgAnswer> =>
  task.kind === 'read'
    ? { kind: 'read', key: await readGpgKey(task.armored) }
    : { kind: 'check', good: await firstGood(task) }

/** Whether the signature matches one of the texts. */
async function firstGood({ armored, texts, signature }: Extract<GpgTask, { kind: 'check' }>) {
  for (const text of texts) if (await isSignedBy(armored, text, signature)) return true
  return false
}

parentPort?.postMessage('ready')
parentPort?.on('message', async (task: GpgTask) => parentPort?.postMessage(await answerTo(task)))
