/** Keeps a listening server running when this process or the host is out of file descriptors. */
import { closeSync, openSync } from 'node:fs'
import type { Server, Socket } from 'node:net'
import { limitReached } from '../../errors/limits.ts'

const CODES: ReadonlySet<unknown> = new Set(['EMFILE', 'ENFILE'])
const isFull = (error: Error) => 'code' in error && CODES.has(error.code)

/** Pause before the next attempt to reserve a descriptor, in milliseconds. */
const RETRY_MS = 1000

/** Reserve descriptor, closed when no other is left. All servers of this process share it. */
let spare: number | undefined

function keepSpare(): void {
  try {
    spare ??= openSync('/dev/null', 'r')
  } catch {
    setTimeout(keepSpare, RETRY_MS).unref()
  }
}

/**
 * Closes new connections at once while no file can be opened. Node does so with its own reserve descriptor, until
 * another thread takes it; then Node would retry the accept within one iteration of the event loop forever. `free`
 * closes one connection of the server.
 */
export function rejectWhenOutOfDescriptors(server: Server, free: () => void = () => {}): void {
  keepSpare()
  let isRejecting = false
  server.on('error', (error) => {
    if (!isFull(error)) return
    isRejecting = true
    setImmediate(() => {
      isRejecting = false
      keepSpare()
    })
    if (spare === undefined) return free()
    closeSync(spare)
    spare = undefined
  })
  server.prependListener('connection', (socket: Socket) => {
    if (!isRejecting) return
    limitReached('open_files')
    socket.destroy()
  })
}
