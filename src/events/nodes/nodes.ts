/** The nodes: servers with the same stores and data directory, as one node sees them. */
import { randomUUID } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import type { Db } from 'mongodb'
import { VERSION } from '../../storage/version.ts'
import { StoreUnavailable } from '../store/event-store.ts'

/** An incarnation: one start of a server. A fenced server continues as a new incarnation. */
export interface NodeInfo {
  /** A UUID. */
  id: string
  /** `NODE_NAME`. Two nodes may have the same. */
  name: string
  /** Version of its program; absent for old ones. */
  version?: string
}

export interface Nodes {
  /** The incarnation of this node; it changes after a fence. */
  self(): NodeInfo
  /** Whether this node is certainly a member. */
  isMember(): boolean
  /**
   * Like `isMember`, but queries the store when in doubt, and joins again after a fence. False after leaving, or when the
   * store is unreachable.
   */
  confirm(): Promise<boolean>
  /** Whether an incarnation has left or was fenced out, by the current state of the store. @throws StoreUnavailable */
  isGone(id: string): Promise<boolean>
  /** Calls `listener` after an incarnation was lost, also this node's own; returns an unsubscribe function. */
  onLost(listener: (id: string) => void): () => void
  /** The live nodes as last seen, this one first. */
  all(): readonly NodeInfo[]
  /** Removes this node at once. Call it when its work has ended. */
  leave(): Promise<void>
}

/** The part of `Nodes` that holders of locks need. */
export type Membership = Pick<Nodes, 'self' | 'isMember' | 'isGone'>

/** The database of the nodes. `ask` runs one command. @throws StoreUnavailable when it does not answer */
export interface NodesDatabase {
  database: Pick<Db, 'collection'>
  ask<T>(command: () => Promise<T>): Promise<T>
}

export type NodesLog = Pick<FastifyBaseLogger, 'info' | 'warn'>

/** The view of a single node, on embedded stores: leftovers of an earlier start have no owner. */
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

/** Another node may have fenced this one out and taken over its work. */
const notMember = () => new StoreUnavailable('this node has lost its connection to the other nodes')

/**
 * Checks that this node is still a member, for work that began as one. @throws StoreUnavailable when this node may have
 * been fenced out since
 */
export function requireMember(nodes: Pick<Nodes, 'isMember'>): void {
  if (!nodes.isMember()) throw notMember()
}

/** Checks the membership of new work. @throws StoreUnavailable when this node is not a member and cannot join */
export async function joinIfNeeded(nodes: Pick<Nodes, 'isMember' | 'confirm'>): Promise<void> {
  if (!nodes.isMember() && !(await nodes.confirm())) throw notMember()
}
