/** What node would answer by itself, before any route is found: it gets the body that every error has. */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { type LimitName, limitReached } from '../limits.ts'
import { TOO_MANY_CHUNKS } from './body-chunks.ts'
import type { ErrorBody } from './errors.ts'

interface Problem {
  status: number
  limit?: LimitName
  message: string
}

/** By the code of node's error. */
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
])
const MALFORMED: Problem = { status: 400, message: 'the request is not valid HTTP' }

/** Answers a request that cannot be read, and ends its connection. `docsUrl`: of the API documentation. `refused` hears of each. */
export function refuseUnreadable(
  docsUrl: () => string,
  refused: (status: number, ip: string) => void = () => {},
) {
  return (error: Error & { code?: string }, socket: Socket): void => {
    if (error.code === 'ECONNRESET' || socket.destroyed) return
    // Whoever does not speak TLS, or too slowly, could not read the answer.
    if (/^ERR_(SSL|TLS)_/.test(error.code ?? '')) return void socket.destroy()
    const { status, limit, message } = PROBLEMS.get(error.code ?? '') ?? MALFORMED
    if (limit !== undefined) limitReached(limit)
    refused(status, socket.remoteAddress ?? '')
    const body: ErrorBody = { message, url: docsUrl() }
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

/** An `Expect` header that nobody knows means nothing, as RFC 9110 allows. Node would answer 417 without a body. */
export function ignoreExpectations(app: FastifyInstance): void {
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
}
