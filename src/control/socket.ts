/** Where the command line finds the server that runs on a data directory: a socket that only its owner can open. */
import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Longest path of a socket that every system takes, in bytes. */
const MAX_PATH = 100

/** In the data directory; where that has too long a path, in the system's directory for temporary files. */
export function controlSocket(dataDir: string): string {
  const path = join(dataDir, 'control.sock')
  if (Buffer.byteLength(path) <= MAX_PATH) return path
  const digest = createHash('sha256').update(dataDir).digest('hex').slice(0, 32)
  return join(tmpdir(), `mergelog-${digest}.sock`)
}
