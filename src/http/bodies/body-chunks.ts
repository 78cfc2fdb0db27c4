/**
 * Limits small chunks of chunked bodies. Node allocates a buffer and runs a callback per chunk: 4 MB in one-byte chunks
 * block the event loop for seconds and take 500 MB of memory.
 */
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'

/** Number of chunks that may have any size: a client may write its body in small parts. */
const FREE_CHUNKS = 1000
/** Minimum average size of further chunks, in bytes. */
const MIN_BYTES = 32

/** Error code of a connection that sends too many chunks. */
export const TOO_MANY_CHUNKS = 'ERR_TOO_MANY_CHUNKS'

/** Closes the connection of a request with too many small chunks. Call it after `limitConnections`. */
export function limitChunks(app: FastifyInstance): void {
  app.server.prependListener('request', (request: IncomingMessage) => {
    if (request.headers['transfer-encoding'] === undefined) return
    const push = request.push.bind(request)
    let chunks = 0
    let bytes = 0
    let isOver = false
    // Counted before the body is read: thousands of chunks may arrive in one iteration of the event loop.
    request.push = (chunk: Uint8Array | null, encoding?: BufferEncoding) => {
      if (isOver) return false
      chunks += 1
      bytes += chunk?.length ?? 0
      if (chunks <= FREE_CHUNKS + bytes / MIN_BYTES) return push(chunk, encoding)
      isOver = true
      const error = Object.assign(new Error('a body comes in too many chunks'), { code: TOO_MANY_CHUNKS })
      app.server.emit('clientError', error, request.socket)
      return false
    }
  })
}
