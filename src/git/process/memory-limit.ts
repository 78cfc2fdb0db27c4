/** Limits the memory of git processes, so that a small pack that unfolds to gigabytes ends git and not the machine. */
import { accessSync, constants, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/**
 * These commands read names and ids of refs, and no objects that a client made. They do without the limit, because
 * starting `prlimit` takes about a millisecond.
 */
const WITHOUT_OBJECTS = new Set([
  'update-ref',
  'symbolic-ref',
  'for-each-ref',
  'pack-refs',
  'init',
  'version',
])

/** Sets the limit and becomes the program. Its text is fixed: the limit and the program's words are arguments. */
const SHELL = ['-c', 'ulimit -d "$1" && shift && exec "$@"', 'sh']

/** util-linux has it. Other systems have only the shell's `ulimit`. */
const hasPrlimit = (process.env.PATH ?? '').split(delimiter).some((directory) => {
  try {
    accessSync(join(directory, 'prlimit'), constants.X_OK)
    return true
  } catch {
    return false
  }
})

let limit = 1024 ** 3

/**
 * Sets the memory, in bytes, that each git process may have from now on: no more than this process may have itself. It
 * is the limit of all data of the process (RLIMIT_DATA); the packs that it maps do not count.
 */
export function limitGitMemory(bytes: number): void {
  limit = Math.min(bytes, mostData())
}

/** The most that this process may allow another: the system refuses a higher limit, and git would never start. */
function mostData(): number {
  try {
    const [, hard] = /^Max data size +\S+ +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? []
    return hard === undefined ? Number.POSITIVE_INFINITY : Number(hard)
  } catch {
    // Only Linux tells.
    return Number.POSITIVE_INFINITY
  }
}

/** The program and the arguments that run `program` with the limit. No text of a client becomes a command. */
export function withMemoryLimit(
  program: string,
  args: readonly string[],
): [program: string, args: readonly string[]] {
  if (program !== 'git' || WITHOUT_OBJECTS.has(args[0] ?? '')) return [program, args]
  if (hasPrlimit) return ['prlimit', [`--data=${limit}`, '--', program, ...args]]
  return ['sh', [...SHELL, String(Math.ceil(limit / 1024)), program, ...args]]
}
