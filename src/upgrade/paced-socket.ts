/**
 * Reads a connection in small pieces, scheduled fairly with other work. Node reads up to 2 MB of a socket at once, and
 * HTTP/2 runs a callback per frame: one-byte frames blocked the event loop for 0.4 s.
 */
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { nextSlice, scheduleWork } from '../concurrency/event-loop.ts'

/** In bytes: some hundred of the smallest frames, which take a few milliseconds. */
const PIECE = 4 * 1024

/** Wraps a connection for an HTTP/2 server. `key` is the scheduling key of its reads. */
export function pacedSocket(socket: Socket, key: string): Duplex {
  // HTTP/2 does it for a socket: without it, small answers wait for each other.
  socket.setNoDelay(true)
  let wanted = () => {}
  const paced = new Duplex({
    read: () => wanted(),
    write: (chunk, _encoding, done) => void socket.write(chunk, done),
    final: (done) => void socket.end(done),
    destroy(error, done) {
      wanted()
      socket.destroy()
      done(error)
    },
  })

  /** Passes a piece to the reader. Resolves when the reader wants more. */
  async function give(piece: Buffer): Promise<void> {
    if (paced.push(piece) || paced.destroyed) return
    await new Promise<void>((resolve) => {
      wanted = resolve
    })
  }

  async function read(): Promise<void> {
    const chunks: AsyncIterable<Buffer> = socket
    for await (const chunk of chunks) {
      await new Promise<void>((resolve) => scheduleWork(key, resolve))
      await give(chunk.subarray(0, PIECE))
      for (let at = PIECE; at < chunk.length; at += PIECE) {
        await nextSlice(key)
        await give(chunk.subarray(at, at + PIECE))
      }
    }
    paced.push(null)
  }

  read().catch((error: unknown) => paced.destroy(error instanceof Error ? error : undefined))
  socket.once('close', () => paced.destroy())
  return paced
}
