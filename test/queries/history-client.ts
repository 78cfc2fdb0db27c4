/** Reads histories like a client: pages, lines of JSON, and server-sent events. */
import type t from 'tap'
import type { TestServer } from '../start-server.ts'

export interface HistoryRow {
  revision: number
  position: number
  id: string
  type: string
  at: string
  actor: { id: number; login: string } | null
  stream: string
  data: Record<string, unknown>
  correlation_id: string
  causation_id: string
  hash: string | null
  previous_hash: string | null
}

interface StreamedRow {
  id: number
  event: HistoryRow
}

export interface EventStream {
  status: number
  headers: Headers
  /** The events so far. */
  received: StreamedRow[]
  /** All text so far. */
  text(): string
  /** Resolves when this number of events has come. */
  has(count: number): Promise<StreamedRow[]>
  /** Resolves when the server ends the stream, normally or with an error. */
  ended: Promise<void>
  close(): void
}

/** Opens a stream; it is closed when the test ends. */
export async function listen(
  test: Pick<typeof t, 'teardown'>,
  server: TestServer,
  login: string | null,
  path: string,
  headers: Record<string, string> = {},
): Promise<EventStream> {
  const abort = new AbortController()
  test.teardown(() => abort.abort())
  const answer = await server.fetch(login, `/api/v1${path}`, {
    headers: { accept: 'text/event-stream', ...headers },
    signal: abort.signal,
  })
  const received: StreamedRow[] = []
  let text = ''
  let arrived = () => {}
  async function read(): Promise<void> {
    if (answer.body === null) return
    let rest = ''
    for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
      text += part
      const frames = (rest + part).split('\n\n')
      rest = frames.pop() ?? ''
      for (const frame of frames) {
        const [, id, data] = /^id: (\d+)\ndata: (.*)$/.exec(frame) ?? []
        if (id !== undefined && data !== undefined) received.push({ id: Number(id), event: JSON.parse(data) })
      }
      arrived()
    }
  }
  let over = false
  const ended = read()
    .catch(() => {})
    .then(() => {
      over = true
      arrived()
    })
  return {
    status: answer.status,
    headers: answer.headers,
    received,
    text: () => text,
    async has(count) {
      while (received.length < count) {
        if (over) throw new Error(`the stream ended after ${received.length} events`)
        await new Promise<void>((resolve) => {
          arrived = resolve
        })
      }
      return received
    },
    ended,
    close: () => abort.abort(),
  }
}

/** A page: its rows and its total. */
export async function pageOf(
  server: TestServer,
  login: string | null,
  path: string,
): Promise<{ status: number; rows: HistoryRow[]; total: number; link: string | null }> {
  const answer = await server.fetch(login, `/api/v1${path}`)
  const rows = JSON.parse(await answer.text())
  const total = Number(answer.headers.get('x-total-count'))
  return { status: answer.status, rows, total, link: answer.headers.get('link') }
}

/** The whole history, as lines. */
export async function linesOf(server: TestServer, login: string | null, path: string): Promise<HistoryRow[]> {
  const headers = { accept: 'application/x-ndjson' }
  const text = await (await server.fetch(login, `/api/v1${path}`, { headers })).text()
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
}
