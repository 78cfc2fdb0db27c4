/** The child process with the load balancer, separate because it is not measured. */
import { setTimeout as delay } from 'node:timers/promises'
import { startProxy } from '../faults/proxy.ts'
import { serveParent } from './serve-parent.ts'

export interface ProxyReady {
  url: string
}

/** The servers that answer from now on, at most one for each place. */
export interface ProxyQuestion {
  urls: readonly string[]
}

const PLACES = 9

const proxy = await startProxy(PLACES)
const ready: ProxyReady = { url: proxy.url }

await serveParent(
  ready,
  async ({ urls }: ProxyQuestion) => {
    for (let i = 0; i < PLACES; i++) proxy.set(i, urls[i])
    while (!urls.every((_, i) => proxy.isReady(i))) await delay(20)
    return {}
  },
  () => proxy.close(),
)
