/**
 * Bounds the chunks of bodies that come in chunks. Node makes a buffer of each, and whoever reads the body is called for
 * each: four megabytes of chunks with one byte hold the event loop for seconds, and half a gigabyte of memory.
 */
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'

/** So many chunks may be as small as they like: a client may write its body in little pieces. */
const FREE_CHUNKS = 1000
/** All chunks beyond these have at least so many bytes, on average. */
const MIN_BYTES = 32

/** The code of the error with which a connection ends that sends too many chunks. */
export const TOO_MANY_CHUNKS = 'ERR_TOO_MANY_CHUNKS'

/** Ends the connection of a request whose body comes in too many small chunks. Call it after `limitConnections`. */
export function limitChunks(app: FastifyInstance): void {
  app.server.prependListener('request', (request: IncomingMessage) => {
    if (request.headers['transfer-encoding'] === undefined) return
    const push = request.push.bind(request)
    let chunks = 0
    let bytes = 0
    let isOver = false
    // Here and not where the body is read: thousands of chunks may have come in one turn before anybody reads.
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
