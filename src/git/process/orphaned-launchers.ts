/** Removes the directories of launchers that were killed together with their servers. */
import { connect } from 'node:net'
import { join } from 'node:path'
import { hasCode } from '../../storage/disk.ts'
import { removeOrphanedDirectories } from '../repository/orphaned-directories.ts'

/** A launcher that is being started may not listen yet. */
const STARTING_MS = 60_000

/** `prefix`: what their names in `directory` begin with. */
export const removeOrphanedLaunchers = (directory: string, prefix: string): Promise<void> =>
  removeOrphanedDirectories(
    directory,
    prefix,
    (path, made) => made <= Date.now() - STARTING_MS && isRefused(join(path, 'socket')),
  )

/** Whether there is a socket, and nobody listens. */
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
