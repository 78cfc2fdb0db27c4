/** Access control of a node: users, access to streams, and the leader for writes. */
import type { Metadata } from '@grpc/grpc-js'

/** The refusals of the double. A test changes them while the double runs. */
export interface Access {
  /** Unreadable streams; `$all` is one of them. */
  deniedReads: Set<string>
  /** Read-only streams. */
  deniedWrites: Set<string>
  /** The users with their passwords. Without it, every client has full access. */
  users?: ReadonlyMap<string, string>
  /** Refuse every call as if its password were wrong. Clients send no password over a connection without TLS. */
  refuseAll: boolean
  /** Number of next subscriptions that are dropped before they send an event, as after a burst of events. */
  drops: number
  /** Whether subscriptions to `$all` behave as before 23.10: they do not report the end of the old events. */
  hidesEndOfLog?: boolean
  /** For tests that count calls: called for each call, with whether it reached the leader. */
  called?: (what: 'read' | 'write', stream: string, toLeader: boolean) => void
}

/** The current place of a node in its cluster. */
export interface Standing {
  isLeader: boolean
  /** Undefined while the cluster has no leader. */
  leader: { host: string; port: number } | undefined
}

export class Unauthenticated extends Error {
  override readonly name = 'Unauthenticated'
}

export class AccessDenied extends Error {
  override readonly name = 'AccessDenied'
}

/** Another node must do this. */
export class NotLeader extends Error {
  override readonly name = 'NotLeader'
  readonly leader: { host: string; port: number }

  constructor(leader: { host: string; port: number }) {
    super('Leader info available')
    this.leader = leader
  }
}

/** The cluster has no leader. */
export class NotReady extends Error {
  override readonly name = 'NotReady'
}

export interface Gate {
  /** @throws Unauthenticated when the call has a wrong password, AccessDenied when it has none and needs one */
  identify(headers: Metadata): void
  /** @throws AccessDenied, or NotLeader when the call must be done by the leader, or NotReady without a leader */
  admit(headers: Metadata, what: 'read' | 'write', stream: string): void
  /** Whether a subscription that begins now is dropped. */
  drops(): boolean
  /** Whether a subscription reports the end of the old events. */
  reportsEnd(): boolean
}

/** The checks of a node, in the order of a real server: the user, the access, the leader. */
export function createGate(access: Access, standing: () => Standing): Gate {
  function identify(headers: Metadata): void {
    if (access.refuseAll) throw new Unauthenticated('Unauthenticated')
    if (access.users === undefined) return
    const [header] = headers.get('authorization')
    if (header === undefined) throw new AccessDenied('Access Denied')
    const encoded = String(header).replace(/^Basic /, '')
    const [user = '', ...password] = Buffer.from(encoded, 'base64').toString().split(':')
    if (access.users.get(user) !== password.join(':')) throw new Unauthenticated('Unauthenticated')
  }

  return {
    identify,
    reportsEnd: () => access.hidesEndOfLog !== true,
    drops() {
      if (access.drops === 0) return false
      access.drops -= 1
      return true
    },
    admit(headers, what, stream) {
      const { isLeader, leader } = standing()
      access.called?.(what, stream, isLeader)
      identify(headers)
      const denied = what === 'read' ? access.deniedReads : access.deniedWrites
      if (denied.has(stream)) throw new AccessDenied('Access Denied')
      if (leader === undefined) throw new NotReady('Server Is Not Ready')
      // A follower sends a write on to the leader by itself, unless the client requires to speak with the leader.
      if (!isLeader && headers.get('requires-leader')[0] === 'true') throw new NotLeader(leader)
    },
  }
}
