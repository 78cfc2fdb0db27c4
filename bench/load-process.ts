/** The child process that generates load. */
import { Client, credentials } from '@grpc/grpc-js'
import autocannon from 'autocannon'
import { serveParent } from './serve-parent.ts'
import { percentile } from './table.ts'

export interface LoadCommand {
  /** An HTTP URL, or `grpc://host:port` to call CurrentPlan. */
  url: string
  connections: number
  headers: Record<string, string>
  /** Seconds, or a number of requests. */
  end: { duration: number } | { amount: number }
  /** Sent instead of a GET. `{n}` in path and body is replaced by the number of the request, counted from `first`. */
  write?: { method: 'POST' | 'PUT'; path: string; body: string; first: number }
}

export interface Load {
  /** Requests answered with 2xx, per second. */
  rate: number
  /** Milliseconds. */
  p50: number
  p99: number
  /** Requests with another status, or without an answer. */
  failed: number
  sent: number
}

async function loadHttp({ url, connections, headers, end, write }: LoadCommand): Promise<Load> {
  let n = write?.first ?? 0
  const started = performance.now()
  // With a number of requests, autocannon ends only at the next full second, so the time of the last answer is
  // measured.
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
  // Autocannon's own percentiles are whole milliseconds.
  const times: number[] = []
  const result = await new Promise<autocannon.Result>((resolve, reject) => {
    const run = autocannon(options, (error, result) => (error ? reject(error) : resolve(result)))
    run.on('response', (_client, _status, _bytes, time) => {
      answered = performance.now()
      times.push(time)
    })
  })
  const seconds = 'duration' in end ? result.duration : (answered - started) / 1000
  return {
    rate: result['2xx'] / seconds,
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
    failed: result.non2xx + result.errors,
    sent: n,
  }
}

const CURRENT_PLAN = '/sdk.upgrade.v1beta1.Query/CurrentPlan'
const NOTHING = Buffer.alloc(0)

/** Calls over one connection, with `concurrency` calls at the same time. */
async function loadGrpc(url: string, concurrency: number, seconds: number): Promise<Load> {
  const client = new Client(new URL(url).host, credentials.createInsecure())
  const times: number[] = []
  let failed = 0
  const started = performance.now()
  const call = () =>
    new Promise<void>((resolve) => {
      const began = performance.now()
      const bytes = (buffer: Buffer) => buffer
      client.makeUnaryRequest(CURRENT_PLAN, bytes, bytes, NOTHING, (error) => {
        if (error === null) times.push(performance.now() - began)
        else failed += 1
        resolve()
      })
    })
  async function caller(): Promise<void> {
    while (performance.now() - started < seconds * 1000) await call()
  }
  await Promise.all(Array.from({ length: concurrency }, caller))
  const rate = times.length / ((performance.now() - started) / 1000)
  client.close()
  const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)]
  return { rate, p50, p99, failed, sent: times.length + failed }
}

await serveParent(
  {},
  (command: LoadCommand): Promise<Load> => {
    const { url, connections, end } = command
    if (!url.startsWith('grpc:')) return loadHttp(command)
    if (!('duration' in end)) throw new Error('gRPC load needs a duration, not an amount')
    return loadGrpc(url, connections, end.duration)
  },
  async () => {},
)
