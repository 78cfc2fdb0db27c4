/**
 * Computes scrypt hashes in a thread of its own, which gives way to the others: one hash takes a core for a tenth of a
 * second, and neither the event loop nor the disk's threads wait for it. The thread is started at the first hash.
 */
import type { ScryptOptions } from 'node:crypto'
import { type RequestThread, startRequestThread } from '../../storage/request-thread.ts'

export interface Hashing {
  password: string
  salt: Uint8Array
  /** Of the hash, in bytes. */
  length: number
  options: ScryptOptions
}

let thread: RequestThread<Hashing, Uint8Array> | undefined

/** The scrypt hash of a password. Hashes are computed one after the other. @throws what scrypt throws */
export function scryptHash(hashing: Hashing): Promise<Uint8Array> {
  if (!thread?.isRunning()) thread = startRequestThread('auth/passwords/hashing-thread')
  return thread.ask(hashing)
}
