/** Answers requests that fail before routing, with the body of all other errors. */
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { type LimitName, limitReached } from '../../errors/limits.ts'
import { codeFor, type ErrorBody } from '../answers/errors.ts'
import { TOO_MANY_CHUNKS } from '../bodies/body-chunks.ts'

interface Problem {
  status: number
  limit?: LimitName
  message: string
}

const MALFORMED: Problem = { status: 400, message: 'the request is not valid HTTP' }

/** By error code: Node's, or our own. */
const PROBLEMS: ReadonlyMap<string, Problem> = new Map([
  [
    'ERR_HTTP_REQUEST_TIMEOUT',
    { status: 408, limit: 'request_time', message: 'the request took too long to arrive' },
  ],
  [
    'HPE_HEADER_OVERFLOW',
    { status: 431, limit: 'head_bytes', message: 'the head of the request is too large' },
  ],
  [
    TOO_MANY_CHUNKS,
    { status: 413, limit: 'body_chunks', message: 'the body comes in too many small chunks' },
  ],
  ['ERR_HOSTS', { status: 400, message: 'Host: there must be only one' }],
  ['ERR_NO_HOST', { status: 400, message: 'Host: HTTP/1.1 needs one' }],
  ['ERR_FRAGMENT', { status: 400, message: 'the path must not contain #' }],
  ['ERR_OLD_CODING', { status: 400, message: 'Transfer-Encoding: HTTP/1.0 does not know it' }],
  ['ERR_CODING', { status: 501, message: 'Transfer-Encoding: only "chunked" is understood' }],
])

/**
 * Answers a request that cannot be read, and ends its connection. `docsUrl`: of the API documentation. `refused` is
 * called for each.
 */
export function refuseUnreadable(
  docsUrl: () => string,
  refused: (status: number, ip: string) => void = () => {},
) {
  return (error: Error & { code?: string }, socket: Socket): void => {
    if (error.code === 'ECONNRESET' || socket.destroyed) return
    // A client that does not speak TLS could not read the answer.
    if (/^ERR_(SSL|TLS)_/.test(error.code ?? '')) return void socket.destroy()
    const { status, limit, message } = PROBLEMS.get(error.code ?? '') ?? MALFORMED
    if (limit !== undefined) limitReached(limit)
    refused(status, socket.remoteAddress ?? '')
    const body: ErrorBody = { message, code: codeFor(status), url: docsUrl() }
    const text = JSON.stringify(body)
    if (socket.writable) {
      const head = [
        `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
        'Connection: close',
        'Content-Type: application/json; charset=utf-8',
        `Content-Length: ${Buffer.byteLength(text)}`,
      ]
      socket.write(`${head.join('\r\n')}\r\n\r\n${text}`)
    }
    socket.destroy(error)
  }
}

/** Ignores an unknown `Expect` header, as RFC 9110 allows. Node would answer 417 without a body. */
export function ignoreExpectations(app: FastifyInstance): void {
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
}

/** Option of the server: Node would answer 400 without a body. `refuseAmbiguous` refuses such requests. */
export const ALLOW_MISSING_HOST = { requireHostHeader: false } as const

/**
 * Refuses ambiguous requests, which a proxy in front may read differently and attribute to another client: no host or
 * two, body codings besides `chunked`, and a fragment in the target. Also ends the connection. Call it after
 * `limitConnections`.
 */
export function refuseAmbiguous(app: FastifyInstance): void {
  // Node would drop headers after the first thousand, but apply them to the body. The size of the head is the limit.
  app.server.maxHeadersCount = 0
  app.server.prependListener('request', (request: IncomingMessage) => {
    const code = ambiguityOf(request)
    if (code === undefined) return
    app.server.emit('clientError', Object.assign(new Error('ambiguous request'), { code }), request.socket)
  })
}

/** Returns the error code of an ambiguous head. */
function ambiguityOf({ url, rawHeaders, headers, httpVersion }: IncomingMessage): string | undefined {
  if (url?.includes('#')) return 'ERR_FRAGMENT'
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  if (hosts > 1) return 'ERR_HOSTS'
  if (hosts === 0 && httpVersion === '1.1') return 'ERR_NO_HOST'
  const coding = headers['transfer-encoding']
  if (coding === undefined) return undefined
  if (httpVersion === '1.0') return 'ERR_OLD_CODING'
  return coding.trim().toLowerCase() === 'chunked' ? undefined : 'ERR_CODING'
}
