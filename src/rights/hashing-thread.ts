/** The thread that hashes: a program that `hashing.ts` starts. */
import { scryptSync } from 'node:crypto'
import { getPriority, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import type { Answer, Task } from './hashing.ts'

const LOWER = 10

// Only on Linux a thread has a priority of its own; elsewhere it would be that of the whole process.
try {
  if (process.platform === 'linux') setPriority(Math.min(19, getPriority() + LOWER))
} catch {}

function answerTo({ id, password, salt, length, options }: Task): Answer {
  try {
    return { id, hash: scryptSync(password, salt, length, options) }
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : String(error) }
  }
}

parentPort?.on('message', (task: Task) => parentPort?.postMessage(answerTo(task)))
