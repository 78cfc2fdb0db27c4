/** The client of a replay, for fair scheduling and abort. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { schedulingKey } from '../../../http/connections/fair-scheduling.ts'
import { disconnectSignal } from '../../../http/requests/client-disconnect.ts'

export interface ReplayClient {
  /** Scheduling key, as in `nextSlice`. */
  client: string
  /** Aborted when the result is no longer needed. */
  gone?: AbortSignal | undefined
}

/** The client of the server's own work. */
export const SERVER_CLIENT: ReplayClient = { client: 'replays' }

/** The client of a request. */
export const replayClientOf = (request: FastifyRequest, reply: FastifyReply) => ({
  client: schedulingKey(request),
  gone: disconnectSignal(reply),
})
