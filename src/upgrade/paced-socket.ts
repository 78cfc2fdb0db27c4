/**
 * Reads a connection in small chunks, scheduled fairly with other work. Node reads up to 2 MB of a socket at once, and
 * HTTP/2 runs a callback per frame: one-byte frames blocked the event loop for 0.4 s.
 */
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { nextSlice, scheduleWork } from '../concurrency/event-loop.ts'

/** Chunk size in bytes: some hundred of the smallest frames, which take a few milliseconds. */
const MAX_CHUNK = 4 * 1024

/** Wraps a connection for an HTTP/2 server. `key` is the scheduling key of its reads. */
export function pacedSocket(socket: Socket, key: string): Duplex {
  // HTTP/2 does this only for a socket. Otherwise small answers would wait for each other.
  socket.setNoDelay(true)
  let resume = () => {}
  const paced = new Duplex({
    read: () => resume(),
    write: (chunk, _encoding, done) => void socket.write(chunk, done),
    final: (done) => void socket.end(done),
    destroy(error, done) {
      resume()
      socket.destroy()
      done(error)
    },
  })

  /** Passes a chunk to the reader. Resolves when the reader requests more. */
  async function push(part: Buffer): Promise<void> {
    if (paced.push(part) || paced.destroyed) return
    await new Promise<void>((resolve) => {
      resume = resolve
    })
  }

  async function read(): Promise<void> {
    const chunks: AsyncIterable<Buffer> = socket
    for await (const chunk of chunks) {
      await new Promise<void>((resolve) => scheduleWork(key, resolve))
      await push(chunk.subarray(0, MAX_CHUNK))
      for (let at = MAX_CHUNK; at < chunk.length; at += MAX_CHUNK) {
        await nextSlice(key)
        await push(chunk.subarray(at, at + MAX_CHUNK))
      }
    }
    paced.push(null)
  }

  read().catch((error: unknown) => paced.destroy(error instanceof Error ? error : undefined))
  socket.once('close', () => paced.destroy())
  return paced
}
