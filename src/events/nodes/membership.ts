/**
 * Membership of nodes: `docs/architecture/nodes.md`. Each node has a document in MongoDB with a heartbeat counter.
 * A node that sees the same heartbeat of another node for `GONE_MS` removes its document: that node is fenced out. Clocks
 * of two hosts are never compared.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { VERSION } from '../../storage/version.ts'
import { StoreUnavailable } from '../store/event-store.ts'
import type { NodeInfo, Nodes, NodesDatabase, NodesLog } from './nodes.ts'

/** Interval of heartbeats, in milliseconds. */
const BEAT_MS = 1000
/** Time for which a node trusts its membership after sending its last successful heartbeat, in milliseconds. */
const BELIEF_MS = 4000
/** Age of a heartbeat at which a node is fenced out, in milliseconds; longer than `BELIEF_MS`. */
const GONE_MS = 6000
/**
 * Longest gap between two checks, in milliseconds. After a longer one, this host and the other nodes may have been
 * suspended.
 */
const MAX_GAP_MS = 3000
/** Time limit of a read of this small collection. */
const READ = { maxTimeMS: 2000 }

export const NODES = 'mergelog.nodes'

interface NodeDocument extends Omit<NodeInfo, 'id'> {
  _id: string
  beat: number
  /** Whether the node accepts requests. */
  ready: boolean
}

export interface MembershipOptions extends NodesDatabase {
  name: string
  log: NodesLog
  /** Whether this node accepts requests now. */
  isReady?: () => boolean
  /** A monotonic clock, in milliseconds. */
  now?: () => number
  /** The time of day in milliseconds. Unlike the monotonic clock, it continues while the host sleeps. */
  timeOfDay?: () => number
}

interface Observation {
  info: NodeInfo
  beat: number
  /** First time this heartbeat was seen. */
  since: number
}

/**
 * Creates a node that joins with its first tick. A tick sends a heartbeat and checks the other nodes. It never rejects:
 * after a failure, the node's membership expires.
 */
export function createMembership(options: MembershipOptions): Nodes & { tick(): Promise<void> } {
  const { database, ask, name, log, isReady = () => true } = options
  const { now = () => performance.now(), timeOfDay = () => Date.now() } = options
  const documents = database.collection<NodeDocument>(NODES)
  const listeners = new Set<(id: string) => void>()
  const others = new Map<string, Observation>()
  let own: NodeInfo = { id: randomUUID(), name, version: VERSION }
  let isJoined = false
  let hasLeft = false
  /** Time of the last successful heartbeat; undefined without one. */
  let believedFrom: { at: number; timeOfDay: number } | undefined
  let checkedAt = Number.NEGATIVE_INFINITY
  let hasFailed = false
  let ticking: Promise<void> | undefined

  function notify(id: string): void {
    for (const listener of listeners) listener(id)
  }

  const clocks = () => ({ at: now(), timeOfDay: timeOfDay() })

  async function join(): Promise<void> {
    // A new id for each attempt: a join that seems to have failed may have succeeded, and is then fenced out.
    own = { id: randomUUID(), name, version: VERSION }
    const { id: _id } = own
    const at = clocks()
    await ask(() => documents.insertOne({ _id, name, version: VERSION, beat: 0, ready: isReady() }))
    isJoined = true
    believedFrom = at
  }

  async function beat(): Promise<void> {
    if (!isJoined) return join()
    const at = clocks()
    const { id } = own
    const change = { $inc: { beat: 1 }, $set: { ready: isReady() } }
    const { matchedCount } = await ask(() => documents.updateOne({ _id: id }, change))
    if (matchedCount === 1) {
      believedFrom = at
      return
    }
    isJoined = false
    believedFrom = undefined
    own = { id: randomUUID(), name, version: VERSION }
    log.warn({ incarnation: id }, 'the other nodes have fenced out this one; it rejoins')
    notify(id)
    await join()
  }

  async function check(): Promise<void> {
    const askedAt = now()
    const found = await ask(() => documents.find({}, READ).toArray())
    const seenAt = now()
    if (askedAt - checkedAt > MAX_GAP_MS) forgetTimes(seenAt)
    checkedAt = seenAt
    const ids = new Set(found.map(({ _id }) => _id))
    for (const id of [...others.keys()]) if (!ids.has(id)) lose(id)
    for (const { _id: id, name, version, beat } of found) {
      if (id === own.id) continue
      const known = others.get(id)
      if (known?.beat !== beat)
        others.set(id, { info: { id, name, ...(version && { version }) }, beat, since: seenAt })
      else if (askedAt - known.since >= GONE_MS) await fenceOut(known)
    }
  }

  async function fenceOut({ info, beat }: Observation): Promise<void> {
    // Deletes only an unchanged heartbeat.
    const { deletedCount } = await ask(() => documents.deleteOne({ _id: info.id, beat }))
    if (deletedCount === 0) return
    log.warn(
      { lost: info.name, incarnation: info.id },
      'a node was fenced out; the others take over its work',
    )
    lose(info.id)
  }

  function lose(id: string): void {
    others.delete(id)
    notify(id)
  }

  /** Restarts all observations at this time. */
  function forgetTimes(since: number): void {
    for (const [id, known] of others) others.set(id, { ...known, since })
  }

  async function beatAndCheck(): Promise<void> {
    try {
      await beat()
      await check()
      if (hasFailed) log.info('this node reaches the other nodes again')
      hasFailed = false
    } catch (error) {
      checkedAt = Number.NEGATIVE_INFINITY
      if (!hasFailed) log.warn({ err: error }, 'this node cannot reach the other nodes; it retries')
      hasFailed = true
    }
  }

  function tick(): Promise<void> {
    if (hasLeft) return Promise.resolve()
    ticking ??= beatAndCheck().finally(() => {
      ticking = undefined
    })
    return ticking
  }

  /** Checks both clocks: a changed time of day may expire the membership too early, until the next heartbeat. */
  function isMember(): boolean {
    if (!isJoined || hasLeft || believedFrom === undefined) return false
    const ages = [now() - believedFrom.at, timeOfDay() - believedFrom.timeOfDay]
    return Math.max(...ages) < BELIEF_MS
  }

  return {
    tick,
    self: () => own,
    isMember,
    async confirm() {
      // A heartbeat in flight may have been sent too long ago.
      for (let tries = 0; tries < 2 && !isMember(); tries++) await tick()
      return isMember()
    },
    async isGone(id) {
      const found = await ask(() => documents.findOne({ _id: id }, { ...READ, projection: { _id: 1 } }))
      return found === null
    },
    onLost(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    all: () => [...(isJoined ? [own] : []), ...others.values().map(({ info }) => info)],
    async leave() {
      if (hasLeft) return
      hasLeft = true
      await ticking
      if (!isJoined) return
      const { id } = own
      await ask(() => documents.deleteOne({ _id: id })).catch((error: unknown) => {
        log.warn({ err: error }, 'this node could not sign off; the others will fence it out')
      })
    },
  }
}

/** Joins the other nodes, and sends heartbeats until `leave`. @throws StoreUnavailable when it cannot join */
export async function joinNodes(options: MembershipOptions): Promise<Nodes> {
  const { tick, leave, ...nodes } = createMembership(options)
  const stopping = new AbortController()
  const { signal } = stopping
  async function keepBeating(): Promise<void> {
    while (!signal.aborted) {
      await delay(BEAT_MS, undefined, { signal, ref: false }).catch(() => {})
      if (!signal.aborted) await tick()
    }
  }
  await tick()
  // The log has the reason; startup fails with one line.
  if (nodes.all().length === 0) throw new StoreUnavailable('this node cannot join the others in MongoDB')
  void keepBeating()
  return {
    ...nodes,
    async leave() {
      stopping.abort()
      await leave()
    },
  }
}
