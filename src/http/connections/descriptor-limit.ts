/** Lets a listening server go on when this process, or the machine, may open no further file. */
import { closeSync, openSync } from 'node:fs'
import type { Server, Socket } from 'node:net'
import { limitReached } from '../../errors/limits.ts'

const CODES: ReadonlySet<unknown> = new Set(['EMFILE', 'ENFILE'])
const isFull = (error: Error) => 'code' in error && CODES.has(error.code)

/** How long until a spare descriptor is looked for again, in milliseconds. */
const AGAIN_MS = 1000

/** Given up at the moment at which there is no other one. All servers of this process share it. */
let spare: number | undefined

function keepSpare(): void {
  try {
    spare ??= openSync('/dev/null', 'r')
  } catch {
    setTimeout(keepSpare, AGAIN_MS).unref()
  }
}

/**
 * While no further file may be open, newcomers are closed at once. Node does so itself with a spare descriptor of its own,
 * until a thread is faster to open something and takes it: from then on, Node would try to take the newcomer again and
 * again within one turn of the event loop, which would never end. `free` closes some connection of the server.
 */
export function rejectWhenOutOfDescriptors(server: Server, free: () => void = () => {}): void {
  keepSpare()
  let turnsAway = false
  server.on('error', (error) => {
    if (!isFull(error)) return
    turnsAway = true
    setImmediate(() => {
      turnsAway = false
      keepSpare()
    })
    if (spare === undefined) return free()
    closeSync(spare)
    spare = undefined
  })
  server.prependListener('connection', (socket: Socket) => {
    if (!turnsAway) return
    limitReached('open_files')
    socket.destroy()
  })
}
