/** Response headers that pages of other origins may read. */
import type { FastifyReply } from 'fastify'

const EXPOSED = 'Access-Control-Expose-Headers'

/** Adds to the headers that CORS exposes. `names` is a list with commas. */
export function exposeHeaders(reply: FastifyReply, names: string): void {
  const exposed = reply.getHeader(EXPOSED)
  reply.header(EXPOSED, exposed === undefined ? names : `${exposed}, ${names}`)
}
