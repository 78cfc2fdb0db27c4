/** A real receiver of webhooks on this machine: it records requests, and the test chooses its answers. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type t from 'tap'
import { until } from '../../until.ts'

export interface Got {
  path: string
  headers: IncomingHttpHeaders
  body: string
  /** The JSON of the payload. */
  json: Record<string, unknown>
}

type Answer = (response: ServerResponse, got: Got) => void

const ok: Answer = (response) => response.writeHead(200).end('thanks')

export async function startReceiver(test: Pick<typeof t, 'teardown'>) {
  const got: Got[] = []
  const answers = new Map<string, Answer>()
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString('utf8')
      const isForm = request.headers['content-type'] === 'application/x-www-form-urlencoded'
      const json: Record<string, unknown> = JSON.parse(
        (isForm ? new URLSearchParams(body).get('payload') : body) ?? '',
      )
      const one = { path: request.url ?? '', headers: request.headers, body, json }
      got.push(one)
      const answer = answers.get(one.path) ?? ok
      answer(response, one)
    })
  })
  await new Promise<void>((listening) => {
    server.listen(0, '127.0.0.1', () => listening())
  })
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  test.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const at = (path: string) => got.filter((one) => one.path === path)
  return {
    port,
    url: (path: string) => `http://127.0.0.1:${port}${path}`,
    at,
    /** Sets the answer for a path. */
    answer: (path: string, answer: Answer) => void answers.set(path, answer),
    /** The names of the events received at a path, in order. */
    events: (path: string) => at(path).map(({ headers }) => `${headers['x-gitea-event-type']}`),
    /** Waits until a path has received this number. */
    async count(path: string, count: number): Promise<Got[]> {
      await until(`${count} deliveries to ${path}`, () => at(path).length >= count)
      return at(path)
    },
  }
}
