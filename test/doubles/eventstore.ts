/**
 * A server that speaks EventStoreDB's protocol and stores events in the embedded event store. It serves tests, and to
 * try clients. It has streams, $all, subscriptions, deletes, users, TLS, and clusters whose nodes share one log, but no
 * projections.
 *
 *   node test/doubles/eventstore.ts --port 2113 --data DIR
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import type { Appended } from '../../src/events/store/event-store.ts'
import type { Access } from './eventstore/admission.ts'
import { type AnyEvent, HOST, openCore } from './eventstore/core.ts'
import { type RunningNode, startNode, type Tls } from './eventstore/node.ts'

interface Options {
  /** Its SQLite log. */
  file: string
  /** Without it, connections have no TLS. */
  tls?: Tls
  users?: Access['users']
  /** Delay between the acceptance of an append and its visibility to reads, in milliseconds. Default: 0. */
  flushMs?: number
}

interface Double {
  /** The connection string for EventStoreDB clients; without a user. */
  url: string
  /** The refusals; may be changed at any time. */
  access: Access
  /** Appends events past all checks, as another application or the server itself. */
  append(stream: string, events: readonly AnyEvent[]): Promise<Appended>
  /** Removes the events at these positions, as a scavenge does after their deletion, but from `$all` only. */
  scavenge(positions: readonly number[]): void
  /** The number of events sent to clients. */
  sentEvents(): number
  /**
   * Total characters of the regular expressions in all filters. A real server compiles each of them: 2,200 characters
   * take it 0.3 s.
   */
  compiledCharacters(): number
  /** Breaks all connections, like a server that dies, and closes the log. */
  close(): Promise<void>
}

export interface EventStoreDouble extends Double {
  port: number
}

interface ClusterNode {
  port: number
  /** Breaks its connections, and refuses new ones. */
  stop(): void
  /** Listens again, on the same port. */
  start(): Promise<void>
}

export interface EventStoreClusterDouble extends Double {
  /** The connection string that asks the first node for the others; `url` lists them all. */
  discoverUrl: string
  nodes: readonly ClusterNode[]
  /** Makes this node the leader. Without it, the first node leads, then the first that is alive. */
  elect(node: number): void
}

/** Starts one server on 127.0.0.1. With port 0 it uses a free port. */
export async function startEventStoreDouble(options: Options & { port: number }): Promise<EventStoreDouble> {
  const { nodes, discoverUrl: _, elect: __, ...double } = await start(options, [options.port])
  const [node] = nodes
  if (node === undefined) throw new Error('the double has no node')
  return { ...double, port: node.port }
}

/** Starts nodes that share one log, on free ports of 127.0.0.1. Without more than half of them there is no leader. */
export function startEventStoreCluster(
  options: Options & { nodes: number },
): Promise<EventStoreClusterDouble> {
  return start(options, new Array<number>(options.nodes).fill(0))
}

async function start(
  { file, tls, users, flushMs = 0 }: Options,
  ports: readonly number[],
): Promise<EventStoreClusterDouble> {
  const core = await openCore(file, ports.length, users, flushMs)
  const nodes: ClusterNode[] = []
  for (const [index, state] of core.nodes.entries()) {
    let running: RunningNode | undefined
    async function listen(port: number): Promise<number> {
      running ??= await startNode(core, index, port, tls)
      state.isAlive = true
      state.port = running.port
      return running.port
    }
    const port = await listen(ports[index] ?? 0)
    nodes.push({
      port,
      stop() {
        running?.stop()
        running = undefined
        state.isAlive = false
      },
      async start() {
        await listen(port)
      },
    })
  }

  const query = tls === undefined ? '?tls=false' : ''
  const hosts = nodes.map(({ port }) => `${HOST}:${port}`)
  return {
    url: `esdb://${hosts.join(',')}${query}`,
    discoverUrl: `esdb+discover://${hosts[0]}${query}`,
    nodes,
    access: core.access,
    append: core.append,
    scavenge: core.scavenged.remove,
    sentEvents: () => core.sent.events,
    compiledCharacters: () => core.sent.expressions,
    elect: core.elect,
    async close() {
      for (const node of nodes) node.stop()
      await core.store.close()
    },
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { port: { type: 'string', default: '2113' }, data: { type: 'string' } },
  })
  const port = Number(values.port)
  if (values.data === undefined || !Number.isInteger(port) || port < 0 || port > 65535) {
    console.error('usage: node test/doubles/eventstore.ts --port 2113 --data DIR')
    process.exit(2)
  }
  mkdirSync(values.data, { recursive: true })
  const double = await startEventStoreDouble({ port, file: join(values.data, 'eventstore.db') })
  console.log(double.url)
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.once(signal, () => double.close().then(() => process.exit(0)))
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main()
