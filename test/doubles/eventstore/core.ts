/** The shared state of the nodes of a double: the log, the members of the cluster, and access control. */
import { randomUUID } from 'node:crypto'
import { type Appended, LOG_START } from '../../../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import type { Access } from './admission.ts'
import type { Member } from './gossip.ts'
import { createScavenged } from './positions.ts'
import { openStreams, type ServerEvent, serverEvent } from './streams.ts'

/** An event as any application may write it, Mergelog or not. Bytes are taken as they are. */
export interface AnyEvent {
  type: string
  data: string | Buffer
  metadata?: string | Buffer
  /** Default: `application/json`. The server does not check that the data is JSON. */
  contentType?: string
}

export const HOST = '127.0.0.1'

export type Core = Awaited<ReturnType<typeof openCore>>

/** Opens the log in `file` for a cluster of `size` nodes. `flushMs`: as in `openStreams`. */
export async function openCore(file: string, size: number, users: Access['users'], flushMs: number) {
  // Not linked: a server stores the events as its clients send them, and the clients write the hash chain.
  const store = openSqliteEventStore(file, { linked: false })
  const streams = openStreams(store, flushMs)
  const access: Access = {
    deniedReads: new Set(),
    deniedWrites: new Set(),
    refuseAll: false,
    drops: 0,
    ...(users && { users }),
  }
  const nodes = Array.from({ length: size }, () => ({ id: randomUUID(), port: 0, isAlive: false }))
  const scavenged = createScavenged()
  /** For tests of the costs of a client. `expressions`: characters of filters. */
  const sent = { events: 0, expressions: 0 }
  let leader = 0

  // The first event of a real server's log is its own.
  if ((await store.lastPosition()) === LOG_START) {
    await streams.append('$$$scavenges', [serverEvent('$metadata', '{"$maxCount":1000}')], 'any')
  }

  /** The leader from the nodes' view: undefined while no more than half of them are alive. */
  function leaderNow(): number | undefined {
    const alive = nodes.filter(({ isAlive }) => isAlive)
    if (alive.length * 2 <= size) return undefined
    if (!nodes[leader]?.isAlive) leader = nodes.findIndex(({ isAlive }) => isAlive)
    return leader
  }

  return {
    store,
    streams,
    access,
    nodes,
    sent,
    scavenged,
    leaderNow,
    elect(node: number): void {
      leader = node
    },
    members(): Member[] {
      const current = leaderNow()
      return nodes.map((node, i) => ({ ...node, host: HOST, isLeader: i === current }))
    },
    append(stream: string, events: readonly AnyEvent[]): Promise<Appended> {
      return streams.append(stream, events.map(toServerEvent), 'any')
    },
  }
}

function toServerEvent({ type, data, metadata = '', contentType }: AnyEvent): ServerEvent {
  const event = { ...serverEvent(type, ''), data: Buffer.from(data), metadata: Buffer.from(metadata) }
  return contentType === undefined ? event : { ...event, contentType }
}
