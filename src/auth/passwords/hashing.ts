/**
 * Computes scrypt hashes in a low-priority thread, started at the first hash: one takes a core for 100 ms, which would
 * block the event loop or the disk threads.
 */
import type { ScryptOptions } from 'node:crypto'
import { type RequestThread, startRequestThread } from '../../storage/request-thread.ts'

export interface Hashing {
  password: string
  salt: Uint8Array
  /** Length of the hash, in bytes. */
  length: number
  options: ScryptOptions
}

let thread: RequestThread<Hashing, Uint8Array> | undefined

/** Returns the scrypt hash of a password. Hashes are computed one at a time. @throws errors of scrypt */
export function scryptHash(hashing: Hashing): Promise<Uint8Array> {
  if (!thread?.isRunning()) thread = startRequestThread('auth/passwords/hashing-thread')
  return thread.ask(hashing)
}
