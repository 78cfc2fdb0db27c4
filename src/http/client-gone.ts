/** Ends work for a client that no longer waits for the answer. */
import type { FastifyReply } from 'fastify'
import { ErrorWithRefusal, refuse } from '../refusal.ts'

/** Why the work was ended. It is no failure of the server, and nobody reads the answer. */
class ClientGone extends ErrorWithRefusal {
  readonly refusal = refuse.timedOut(this.message)
}

/** Aborts when the client goes away before its answer is complete. */
export function clientGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort(new ClientGone('the client is gone'))
  })
  return gone.signal
}
