/** The child process with the load balancer, separate because it is not measured. */
import { setTimeout as delay } from 'node:timers/promises'
import { startProxy } from '../faults/proxy.ts'
import { serveParent } from './serve-parent.ts'

export interface ProxyReady {
  url: string
}

/** The servers that answer from now on, at most `MAX_SERVERS`. */
export interface ProxyCommand {
  urls: readonly string[]
}

const MAX_SERVERS = 9

const proxy = await startProxy(MAX_SERVERS)
const ready: ProxyReady = { url: proxy.url }

await serveParent(
  ready,
  async ({ urls }: ProxyCommand) => {
    for (let i = 0; i < MAX_SERVERS; i++) proxy.set(i, urls[i])
    while (!urls.every((_, i) => proxy.isReady(i))) await delay(20)
    return {}
  },
  () => proxy.close(),
)
