/** The load generator. */
import autocannon from 'autocannon'
import { serveParent } from './child.ts'

export interface LoadQuestion {
  url: string
  connections: number
  headers: Record<string, string>
  /** Seconds, or a number of requests. */
  end: { duration: number } | { amount: number }
  /** A POST of this JSON, in which `{n}` is the number of the request, from `first`. Without it: a GET. */
  post?: { body: string; first: number }
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
  async ({ url, connections, headers, end, post }: LoadQuestion): Promise<Load> => {
    let n = post?.first ?? 0
    const started = performance.now()
    const result = await autocannon({
      url,
      connections,
      headers: post === undefined ? headers : { ...headers, 'content-type': 'application/json' },
      ...end,
      ...(post !== undefined && {
        requests: [
          {
            method: 'POST',
            setupRequest: (request) => ({ ...request, body: post.body.replaceAll('{n}', `${n++}`) }),
          },
        ],
      }),
    })
    const seconds = 'duration' in end ? result.duration : (performance.now() - started) / 1000
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
