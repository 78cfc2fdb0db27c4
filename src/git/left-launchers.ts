/** Removes the directories of launchers that were killed together with their servers: nobody else knows of them. */
import { readdir, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { hasCode, writtenAt } from '../disk.ts'

/** A launcher that is being started may not listen yet. */
const STARTING_MS = 60_000

/** `prefix`: what their names in `directory` begin with. What cannot be removed stays: it may be another user's. */
export async function removeLeftLaunchers(directory: string, prefix: string): Promise<void> {
  const names = await readdir(directory).catch(() => [])
  for (const name of names.filter((one) => one.startsWith(prefix))) {
    const path = join(directory, name)
    try {
      const made = await writtenAt(path)
      if (made === undefined || made > Date.now() - STARTING_MS) continue
      if (await isRefused(join(path, 'socket'))) await rm(path, { recursive: true, force: true })
    } catch {
      // It is not ours.
    }
  }
}

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
