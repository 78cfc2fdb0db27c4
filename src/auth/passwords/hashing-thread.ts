/** The thread that hashes: a program that `hashing.ts` starts. */
import { scryptSync } from 'node:crypto'
import { getPriority, setPriority } from 'node:os'
import { serveRequests } from '../../storage/request-thread.ts'
import type { Hashing } from './hashing.ts'

const LOWER = 10

// Only on Linux a thread has a priority of its own; elsewhere it would be that of the whole process.
try {
  if (process.platform === 'linux') setPriority(Math.min(19, getPriority() + LOWER))
} catch {}

serveRequests(({ password, salt, length, options }: Hashing) => scryptSync(password, salt, length, options))
