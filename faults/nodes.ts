/** The servers of a run: each is a process of its own, which the proxy finds again after a start. */
import { join } from 'node:path'
import { until } from '../test/until.ts'
import { type Running, startProgram } from './programs.ts'
import type { RunningProxy } from './proxy.ts'

/** How long a server may take to become healthy on a busy machine, in milliseconds. */
const PATIENCE_MS = 180_000

export interface Node extends Pick<Running, 'hasEnded' | 'kill' | 'end' | 'freeze' | 'thaw'> {
  /** Where it is now. It has another port after each start. */
  url(): string
  /** Starts it again, after it has ended. */
  start(): Promise<void>
  /** Waits until it is healthy, and the proxy knows. @throws Error when it ends, or is not healthy in time */
  healthy(): Promise<void>
}

/** Starts so many servers, which share the settings and so the data: the first one, and then the others at the same time. */
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
        PATIENCE_MS,
      )
    },
  }
}
