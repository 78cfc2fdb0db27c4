/** Removes the directories of launchers that were killed together with their servers. */
import { connect } from 'node:net'
import { join } from 'node:path'
import { hasCode } from '../../storage/disk.ts'
import { removeOrphanedDirectories } from '../repository/orphaned-directories.ts'

/** Age below which a launcher may not listen yet, in milliseconds. */
const STARTING_MS = 60_000

/** Removes orphaned directories in `directory` whose names begin with `prefix`. */
export const removeOrphanedLaunchers = (directory: string, prefix: string): Promise<void> =>
  removeOrphanedDirectories(
    directory,
    prefix,
    (path, modifiedAt) => modifiedAt <= Date.now() - STARTING_MS && isRefused(join(path, 'socket')),
  )

/** Whether the socket exists and has no listener. */
function isRefused(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = connect(socket)
    connection.on('connect', () => {
      connection.destroy()
      resolve(false)
    })
    connection.on('error', (error) => resolve(hasCode(error, 'ECONNREFUSED')))
  })
}
