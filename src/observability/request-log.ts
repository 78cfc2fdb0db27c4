/** Writes one log line per request: requester, route and outcome, without tokens and texts. */
import type { Socket } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import type { EndedRequest } from './requests.ts'

/** Routes that monitoring polls every few seconds. Their lines are logged at `debug` unless they fail. */
const PROBES = new Set(['/healthz', '/livez', '/metrics'])

/** Maximum number of logged characters of a path. */
const MAX_PATH = 300

/** Counts the bytes of each answer on a connection. */
function createByteCounts() {
  const before = new WeakMap<Socket, { sent: number; received: number }>()
  return (socket: Socket) => {
    const { sent, received } = before.get(socket) ?? { sent: 0, received: 0 }
    const now = { sent: socket.bytesWritten, received: socket.bytesRead }
    before.set(socket, now)
    return { bytes: now.sent - sent, received: now.received - received }
  }
}

/** Returns the path without the query, which may hold search words. */
function pathOf(url: string): string {
  const end = url.indexOf('?')
  return url.slice(0, Math.min(end === -1 ? url.length : end, MAX_PATH))
}

const hasDebug = ({ level }: FastifyBaseLogger) => level === 'debug' || level === 'trace'

/** Whether `info` is logged; skips the cost of building a line otherwise. */
export const hasInfo = (log: FastifyBaseLogger) => log.level === 'info' || hasDebug(log)

/** Rounds milliseconds to one digit after the point. */
export const rounded = (ms: number) => Math.round(ms * 10) / 10

/** Writes the line of a request. `bytes` and `received` are those of the answer and the request, with their heads. */
export function requestLog(log: FastifyBaseLogger): (ended: EndedRequest) => void {
  const bytesOf = createByteCounts()
  return ({ request, socket, method, route, status, aborted, ms }) => {
    const level = PROBES.has(route) && status === 200 ? 'debug' : 'info'
    // Also without a line: the next answer of the connection counts from here.
    const { bytes, received } = bytesOf(socket)
    if (level === 'info' ? !hasInfo(log) : !hasDebug(log)) return
    const { id: reqId, requester, ip } = request
    const user = requester?.login
    const line = { reqId, method, route, path: pathOf(request.url), status, ms: rounded(ms), bytes, received }
    log[level](
      { ...line, ip, ...(user !== undefined && { user }), ...(aborted && { aborted }) },
      aborted ? 'request aborted' : 'request',
    )
  }
}
