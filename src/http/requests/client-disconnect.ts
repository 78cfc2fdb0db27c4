/** Ends work for a client that no longer waits for the answer. */
import { setMaxListeners } from 'node:events'
import type { FastifyReply } from 'fastify'
import { ErrorWithRefusal, refuse } from '../../errors/refusal.ts'

/** Reason of the abort: not a failure of the server. */
class ClientDisconnected extends ErrorWithRefusal {
  readonly refusal = refuse.timedOut(this.message)
}

/** Aborts when the client goes away before its answer is complete. */
export function disconnectSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController()
  // All concurrent work of a request listens. Node would report a leak.
  setMaxListeners(0, gone.signal)
  const { raw } = reply
  const closed = () => {
    if (!raw.writableFinished) gone.abort(new ClientDisconnected('the client is gone'))
  }
  // The client may have disconnected while its request waited.
  if (raw.closed) closed()
  else raw.once('close', closed)
  return gone.signal
}
