/** Ends work for a client that no longer waits for the answer. */
import type { FastifyReply } from 'fastify'

/** Aborts when the client goes away before its answer is complete. */
export function clientGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort()
  })
  return gone.signal
}
