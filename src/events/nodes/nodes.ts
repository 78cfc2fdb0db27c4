/** The nodes: servers that work on the same stores and the same data directory. This is one node's view of them. */
import { randomUUID } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import type { Db } from 'mongodb'
import { VERSION } from '../../storage/version.ts'
import { StoreUnavailable } from '../store/event-store.ts'

/** One start of a server: an incarnation. A server that was fenced out goes on as another one. */
export interface NodeInfo {
  /** A UUID. */
  id: string
  /** `NODE_NAME`. Two nodes may have the same. */
  name: string
  /** Of its program; absent for one that does not tell it. */
  version?: string
}

export interface Nodes {
  /** The incarnation of this node; another one after it was fenced out. */
  self(): NodeInfo
  /** Whether nobody can have fenced this node out yet. */
  isMember(): boolean
  /**
   * The same, but a node that does not know asks at once, and joins the others again when they have gone on without it.
   * False when it has left, or cannot reach them.
   */
  confirm(): Promise<boolean>
  /** Whether an incarnation has left or was fenced out, as the store has it now. @throws StoreUnavailable */
  isGone(id: string): Promise<boolean>
  /** Called after an incarnation was lost, also this node's own; returns an unsubscribe function. */
  onLost(listener: (id: string) => void): () => void
  /** The live nodes as last seen, this one first. */
  all(): readonly NodeInfo[]
  /** Tells the others at once that this node works no more. To be called when its work has ended. */
  leave(): Promise<void>
}

/** What who holds something must know of the nodes. */
export type Membership = Pick<Nodes, 'self' | 'isMember' | 'isGone'>

/** The database in which nodes meet. `ask` runs one command. @throws StoreUnavailable when it cannot answer now */
export interface NodesDatabase {
  database: Pick<Db, 'collection'>
  ask<T>(command: () => Promise<T>): Promise<T>
}

export type NodesLog = Pick<FastifyBaseLogger, 'info' | 'warn'>

/** The only node there is, on embedded stores: whatever an earlier start has left behind is nobody's. */
export function aloneNode(name: string): Nodes {
  const self = { id: randomUUID(), name, version: VERSION }
  return {
    self: () => self,
    isMember: () => true,
    confirm: async () => true,
    isGone: async (id) => id !== self.id,
    onLost: () => () => {},
    all: () => [self],
    leave: async () => {},
  }
}

/** Others may have fenced this node out: what it knows and holds may be theirs. */
const noMember = () => new StoreUnavailable('this node has lost touch with the other nodes')

/** For what began while this node was a member. @throws StoreUnavailable when it may have been fenced out since */
export function requireMember(nodes: Pick<Nodes, 'isMember'>): void {
  if (!nodes.isMember()) throw noMember()
}

/** For what begins now. @throws StoreUnavailable when this node is no member, and cannot become one */
export async function joinIfNeeded(nodes: Pick<Nodes, 'isMember' | 'confirm'>): Promise<void> {
  if (!nodes.isMember() && !(await nodes.confirm())) throw noMember()
}
