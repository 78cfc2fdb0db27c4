/** The servers of a run, each in its own process. The proxy finds them again after a restart. */
import { join } from 'node:path'
import { until } from '../test/until.ts'
import { type Running, startProgram } from './programs.ts'
import type { RunningProxy } from './proxy.ts'

/** Time in which a server must become healthy on a busy machine, in milliseconds. */
const TIMEOUT_MS = 180_000

export interface Node extends Pick<Running, 'hasEnded' | 'kill' | 'end' | 'freeze' | 'thaw'> {
  /** The current address. The port changes at each start. */
  url(): string
  /** Restarts it after it has ended. */
  start(): Promise<void>
  /** Waits until it is healthy, and the proxy knows. @throws Error when it ends, or is not healthy in time */
  healthy(): Promise<void>
}

/** Starts `count` servers that share the settings and so the data: first one, then the others concurrently. */
export async function startNodes(
  count: number,
  environment: Record<string, string>,
  directory: string,
  proxy: RunningProxy,
): Promise<Node[]> {
  const isListening = /"msg":"Server listening at (http:[^"]+)"/
  function node(i: number): Promise<Node> {
    const env = { ...environment, NODE_NAME: `node-${i + 1}` }
    const log = join(directory, count === 1 ? 'server.log' : `node-${i + 1}.log`)
    const start = () => startProgram('src/main', [], env, log, isListening, 'faults/effects')
    return startNode(
      start,
      (url) => proxy.set(i, url),
      () => proxy.isReady(i),
    )
  }
  const first = await node(0)
  return [first, ...(await Promise.all(Array.from({ length: count - 1 }, (_, i) => node(i + 1))))]
}

async function startNode(
  start: () => Promise<Running>,
  moved: (url: string) => void,
  isReady: () => boolean,
): Promise<Node> {
  let running = await start()
  moved(running.ready)
  return {
    url: () => running.ready,
    hasEnded: () => running.hasEnded(),
    kill: () => running.kill(),
    end: () => running.end(),
    freeze: () => running.freeze(),
    thaw: () => running.thaw(),
    async start() {
      running = await start()
      moved(running.ready)
    },
    async healthy() {
      await until(
        'the server is healthy',
        () => {
          if (running.hasEnded()) throw new Error('the server ended by itself')
          return isReady()
        },
        TIMEOUT_MS,
      )
    },
  }
}
