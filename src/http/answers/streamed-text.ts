/** Answers with a text of any length: creates and sends it in parts, and never holds the whole. */
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** Time that answers still have when the server stops, in milliseconds. */
const GRACE_MS = 1000

/**
 * Sends the parts as they arrive. Requests the next part when the client has read most of those before it. The
 * iteration ends when the client disconnects. An error in the middle breaks the connection. HEAD gets only the headers,
 * without iterating. The connection closes at most a second after `ending` is aborted.
 */
export function sendStreamedText(
  request: FastifyRequest,
  reply: FastifyReply,
  type: string,
  parts: () => AsyncIterable<string>,
  ending?: AbortSignal,
): void {
  reply.type(type)
  if (request.method === 'HEAD') {
    reply.send(Readable.from([]))
    return
  }
  if (ending !== undefined) closeAfterGrace(reply, ending)
  reply.send(Readable.from(parts(), { objectMode: false }))
}

function closeAfterGrace(reply: FastifyReply, ending: AbortSignal): void {
  // The client disconnected while its request waited: the listener would never be removed, and hold the request.
  if (reply.raw.closed) return
  const onEnding = () => {
    const grace = setTimeout(() => reply.raw.destroy(), GRACE_MS).unref()
    reply.raw.once('close', () => clearTimeout(grace))
  }
  ending.addEventListener('abort', onEnding, { once: true })
  reply.raw.once('close', () => ending.removeEventListener('abort', onEnding))
}
