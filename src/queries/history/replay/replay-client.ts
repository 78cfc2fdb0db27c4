/** Who waits for a replay: work for many of them is shared out fairly, and ends when nobody waits. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { schedulingKey } from '../../../http/connections/fair-scheduling.ts'
import { disconnectSignal } from '../../../http/requests/client-disconnect.ts'

export interface ReplayClient {
  /** Whose work it is, as in `nextPiece`. */
  client: string
  /** Aborted when nobody waits for it any more. */
  gone?: AbortSignal | undefined
}

/** For what the server does by itself. */
export const SERVER_CLIENT: ReplayClient = { client: 'replays' }

/** The client of a request. */
export const replayClientOf = (request: FastifyRequest, reply: FastifyReply) => ({
  client: schedulingKey(request),
  gone: disconnectSignal(reply),
})
