/** Limits the memory of git processes, so that a small pack that inflates to gigabytes ends git and not the host. */
import { accessSync, constants, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/**
 * Commands that read refs but no objects of clients. They run without the limit, because `prlimit` takes a millisecond
 * to start.
 */
const WITHOUT_OBJECTS = new Set([
  'update-ref',
  'symbolic-ref',
  'for-each-ref',
  'pack-refs',
  'init',
  'version',
])

/** Sets the limit and replaces itself with the program. The script is constant: limit and program are arguments. */
const SHELL = ['-c', 'ulimit -d "$1" && shift && exec "$@"', 'sh']

/** Whether util-linux is installed. Other systems only have the shell's `ulimit`. */
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
 * Sets the memory limit of git processes, in bytes; at most this process's own limit. It limits the data of the process
 * (RLIMIT_DATA) without the packs that it maps.
 */
export function limitGitMemory(bytes: number): void {
  limit = Math.min(bytes, maxDataLimit())
}

/** Returns the highest allowed limit: the system refuses a higher one, and git would never start. */
function maxDataLimit(): number {
  try {
    const [, hard] = /^Max data size +\S+ +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? []
    return hard === undefined ? Number.POSITIVE_INFINITY : Number(hard)
  } catch {
    // Not Linux.
    return Number.POSITIVE_INFINITY
  }
}

/** Returns the program and arguments that run `program` with the limit. Text of a client never becomes a command. */
export function withMemoryLimit(
  program: string,
  args: readonly string[],
): [program: string, args: readonly string[]] {
  if (program !== 'git' || WITHOUT_OBJECTS.has(args[0] ?? '')) return [program, args]
  if (hasPrlimit) return ['prlimit', [`--data=${limit}`, '--', program, ...args]]
  return ['sh', [...SHELL, String(Math.ceil(limit / 1024)), program, ...args]]
}
