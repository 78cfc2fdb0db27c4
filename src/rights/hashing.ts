/**
 * Computes scrypt hashes in a thread of its own, which gives way to the others: one hash takes a core for a tenth of a
 * second, and neither the event loop nor the disk's threads wait for it. The thread is started at the first hash.
 */
import type { ScryptOptions } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { program } from '../project-files.ts'

export interface Hashing {
  password: string
  salt: Uint8Array
  /** Of the hash, in bytes. */
  length: number
  options: ScryptOptions
}

export type Task = Hashing & { id: number }
export type Answer = { id: number } & ({ hash: Uint8Array; error?: undefined } | { error: string })

interface Waiting {
  resolve(hash: Uint8Array): void
  reject(error: Error): void
}

let thread: Worker | undefined
let lastId = 0
const waiting = new Map<number, Waiting>()

function take(id: number): Waiting | undefined {
  const asked = waiting.get(id)
  waiting.delete(id)
  // Only a thread that owes an answer keeps the process alive.
  if (waiting.size === 0) thread?.unref()
  return asked
}

function running(): Worker {
  if (thread !== undefined) return thread
  const started = new Worker(program('rights/hashing-thread'), { execArgv: [] })
  started.on('message', (answer: Answer) => {
    if (answer.error === undefined) take(answer.id)?.resolve(answer.hash)
    else take(answer.id)?.reject(new Error(answer.error))
  })
  let reason = 'the thread that hashes has ended'
  started.on('error', (error) => {
    reason = `the thread that hashes has ended: ${error.message}`
  })
  started.on('exit', () => {
    if (thread === started) thread = undefined
    for (const id of [...waiting.keys()]) take(id)?.reject(new Error(reason))
  })
  thread = started
  return started
}

/** The scrypt hash of a password. Hashes are computed one after the other. @throws what scrypt throws */
export function scryptHash(hashing: Hashing): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const hashes = running()
    lastId += 1
    waiting.set(lastId, { resolve, reject })
    hashes.ref()
    const task: Task = { id: lastId, ...hashing }
    hashes.postMessage(task)
  })
}
