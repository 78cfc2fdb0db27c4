/**
 * A reverse proxy like a load balancer: sends each request to the next ready node, without retries and without
 * sessions.
 */
import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { pipeline } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'

/** Interval and timeout of readiness checks, in milliseconds. */
const CHECK_INTERVAL_MS = 200
const CHECK_TIMEOUT_MS = 2000
/** Failed checks in a row before a node counts as gone: on a busy machine it may just be slow. */
const MAX_SILENT = 2

/** The proxy's answer when no node was available. */
export const NO_NODE = 'no node is ready'

/** Headers between a client and the proxy: the node that has answered, and the node that must not answer. */
export const ANSWERED_BY = 'faults-node'
export const NOT_BY = 'faults-not'

export interface RunningProxy {
  url: string
  /** Sets the address of a node; undefined while it is down. Nodes are named by their index. */
  set(node: number, url: string | undefined): void
  /** Whether the node was ready at the last check. */
  isReady(node: number): boolean
  close(): Promise<void>
}

interface Target {
  name: string
  url: URL | undefined
  isReady: boolean
}

/** Starts a proxy for this number of nodes, on a free port of 127.0.0.1. */
export async function startProxy(nodes: number): Promise<RunningProxy> {
  const targets = Array.from({ length: nodes }, (_, i): Target => {
    return { name: `${i + 1}`, url: undefined, isReady: false }
  })
  const agent = new Agent({ keepAlive: true })
  const closing = new AbortController()
  let next = 0

  /** Returns the next ready node, and another one than `not` if possible. */
  function choose(not: string | undefined): Target | undefined {
    const ready = targets.filter(({ isReady, url }) => isReady && url !== undefined)
    const others = ready.filter(({ name }) => name !== not)
    const from = others.length > 0 ? others : ready
    return from[next++ % from.length]
  }

  const server = createServer((incoming, answer) => {
    const not = incoming.headers[NOT_BY]
    const target = choose(typeof not === 'string' ? not : undefined)
    if (target?.url === undefined) return void refuse(answer, 503, NO_NODE)
    forward(incoming, answer, target.url, target.name, agent)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  async function watch(target: Target): Promise<void> {
    let silent = 0
    while (!closing.signal.aborted) {
      const { url } = target
      const health = url === undefined ? 'not ready' : await healthOf(url)
      silent = health === 'silent' ? silent + 1 : 0
      // Meanwhile the node may have another address.
      if (target.url === url) {
        target.isReady = health === 'ready' || (target.isReady && health === 'silent' && silent < MAX_SILENT)
      }
      await delay(CHECK_INTERVAL_MS, undefined, { signal: closing.signal }).catch(() => {})
    }
  }
  const watching = targets.map(watch)

  const address = server.address()
  if (address === null || typeof address === 'string') throw new TypeError('the proxy has no port')
  return {
    url: `http://127.0.0.1:${address.port}`,
    set(node, url) {
      const target = targets[node]
      if (target === undefined) throw new RangeError(`there is no node ${node}`)
      target.url = url === undefined ? undefined : new URL(url)
      target.isReady = false
    },
    isReady: (node) => targets[node]?.isReady === true,
    async close() {
      closing.abort()
      server.close()
      server.closeAllConnections()
      agent.destroy()
      await Promise.all(watching)
    },
  }
}

async function healthOf(url: URL): Promise<'ready' | 'not ready' | 'silent'> {
  const signal = AbortSignal.timeout(CHECK_TIMEOUT_MS)
  try {
    const answer = await fetch(new URL('/healthz', url), { signal })
    await answer.arrayBuffer()
    return answer.status === 200 ? 'ready' : 'not ready'
  } catch {
    return signal.aborted ? 'silent' : 'not ready'
  }
}

function refuse(answer: ServerResponse, status: number, message: string): void {
  if (answer.headersSent) return void answer.destroy()
  answer.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ message }))
}

function forward(
  incoming: IncomingMessage,
  answer: ServerResponse,
  url: URL,
  name: string,
  agent: Agent,
): void {
  const { [NOT_BY]: _, ...headers } = incoming.headers
  const outgoing = request({
    agent,
    host: url.hostname,
    port: url.port,
    method: incoming.method,
    path: incoming.url,
    headers: { ...headers, 'x-forwarded-for': incoming.socket.remoteAddress },
  })
  outgoing.on('response', (answered) => {
    answer.writeHead(answered.statusCode ?? 502, { ...answered.headers, [ANSWERED_BY]: name })
    // A broken stream must break for the client, too.
    pipeline(answered, answer, () => {})
  })
  outgoing.on('error', () => refuse(answer, 502, `node ${name} has broken the connection`))
  answer.on('close', () => outgoing.destroy())
  pipeline(incoming, outgoing, () => {})
}
