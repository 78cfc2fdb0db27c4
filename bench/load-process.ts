/** The load generator. */
import autocannon from 'autocannon'
import { serveParent } from './child.ts'

export interface LoadQuestion {
  url: string
  connections: number
  headers: Record<string, string>
  /** Seconds, or a number of requests. */
  end: { duration: number } | { amount: number }
  /** What is sent instead of a GET; `{n}` in path and body is the number of the request, from `first`. */
  write?: { method: 'POST' | 'PUT'; path: string; body: string; first: number }
}

export interface Load {
  /** Requests answered with 2xx, per second. */
  rate: number
  /** Milliseconds. */
  p50: number
  p99: number
  /** Requests that were answered otherwise, or not. */
  failed: number
  sent: number
}

await serveParent(
  {},
  async ({ url, connections, headers, end, write }: LoadQuestion): Promise<Load> => {
    let n = write?.first ?? 0
    const started = performance.now()
    // With an amount autocannon ends at its next tick of a second: the last answer counts.
    let answered = started
    const options: autocannon.Options = {
      url,
      connections,
      headers: write === undefined ? headers : { ...headers, 'content-type': 'application/json' },
      ...end,
      ...(write !== undefined && {
        requests: [
          {
            method: write.method,
            setupRequest: (request) => {
              const number = `${n++}`
              const path = write.path.replaceAll('{n}', number)
              return { ...request, path, body: write.body.replaceAll('{n}', number) }
            },
          },
        ],
      }),
    }
    const result = await new Promise<autocannon.Result>((resolve, reject) => {
      const run = autocannon(options, (error, result) => (error ? reject(error) : resolve(result)))
      run.on('response', () => {
        answered = performance.now()
      })
    })
    const seconds = 'duration' in end ? result.duration : (answered - started) / 1000
    return {
      rate: result['2xx'] / seconds,
      p50: result.latency.p50,
      p99: result.latency.p99,
      failed: result.non2xx + result.errors,
      sent: n,
    }
  },
  async () => {},
)
