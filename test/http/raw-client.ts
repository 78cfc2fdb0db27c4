/** A client that sends exact bytes, and reads on demand. */
import { connect, type Socket } from 'node:net'
import type t from 'tap'
import { until } from '../until.ts'

export interface RawClient {
  socket: Socket
  /** The received bytes so far. */
  text(): string
  /** Waits until the server has sent this. */
  got(what: RegExp): Promise<void>
  /** Waits until the server has closed the connection. */
  closed(): Promise<void>
  isClosed(): boolean
}

/** Connects and sends a text. With `reads: false` it never reads. */
export function rawClient(
  test: Pick<typeof t, 'teardown'>,
  url: string,
  sent = '',
  { reads = true, from = '127.0.0.1' } = {},
): RawClient {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), localAddress: from })
  test.teardown(() => socket.destroy())
  let text = ''
  let isClosed = false
  socket.on('error', () => {})
  socket.on('close', () => {
    isClosed = true
  })
  if (reads) {
    socket.setEncoding('latin1').on('data', (part) => {
      text += part
    })
  }
  if (sent !== '') socket.write(sent)
  return {
    socket,
    text: () => text,
    got: (what) => until(`the server sends ${what}`, async () => what.test(text)),
    closed: () => until('the server closes the connection', async () => isClosed),
    isClosed: () => isClosed,
  }
}

/** The text of a request. */
export function requestText(
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body = '',
): string {
  const lines = Object.entries({ Host: 'localhost', ...headers }).map(([name, value]) => `${name}: ${value}`)
  return [`${method} ${path} HTTP/1.1`, ...lines, '', body].join('\r\n')
}
