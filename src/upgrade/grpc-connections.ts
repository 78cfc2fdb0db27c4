/** Accepts connections of gRPC clients, within limits per network and in total. */
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type BudgetLimits, createBudget } from '../concurrency/budget.ts'
import { networkOf } from '../config/address-ranges.ts'
import { limitReached } from '../errors/limits.ts'
import { rejectWhenOutOfDescriptors } from '../http/connections/descriptor-limit.ts'
import { rememberPeer } from './grpc-peers.ts'
import { pacedSocket } from './paced-socket.ts'

export interface ConnectionLimits extends BudgetLimits {
  /** Whether this is the address of a trusted proxy, which serves many clients and has no limit. */
  isProxy: (address: string) => boolean
}

export interface GrpcListener {
  port: number
  /** Number of open connections. */
  connections(): number
  /** Accepts no further connections. Resolves when the open ones have ended. */
  close(): Promise<void>
  /** Ends the open connections. */
  cut(): void
}

/**
 * Listens at every address of the host and passes each connection to `accept`. Excess connections are closed at once: a
 * gRPC client uses one connection for all its calls.
 * @throws the system's error when it can listen at none of them
 */
export async function listenForGrpc(
  { host, port }: { host: string; port: number },
  { isProxy, ...limits }: ConnectionLimits,
  accept: (connection: Duplex) => void,
): Promise<GrpcListener> {
  const shares = createBudget(limits)

  const open = new Set<Socket>()
  let onAllEnded = () => {}

  function evictOldest(): void {
    const [first] = open
    if (first === undefined) return
    limitReached('grpc_connections')
    open.delete(first)
    first.destroy()
  }

  function take(socket: Socket): void {
    if (socket.destroyed) return
    const address = socket.remoteAddress ?? ''
    const network = networkOf(address)
    if (!isProxy(address)) {
      if (shares.lacking(network, 1) !== undefined) {
        limitReached('grpc_connections')
        socket.destroy()
        return
      }
      socket.once('close', shares.take(network, 1))
    }
    open.add(socket)
    socket.once('close', () => {
      open.delete(socket)
      if (open.size === 0) onAllEnded()
    })
    const paced = pacedSocket(socket, network)
    rememberPeer(paced, { address, port: socket.remotePort ?? 0 })
    accept(paced)
  }

  const servers: Server[] = []
  const listen = async (address: string, at: number): Promise<number> => {
    const server = createServer(take)
    rejectWhenOutOfDescriptors(server, evictOldest)
    server.listen(at, address)
    await once(server, 'listening')
    servers.push(server)
    const bound = server.address()
    return typeof bound === 'object' && bound !== null ? bound.port : at
  }

  let bound = port
  let problem: unknown
  for (const { address } of await lookup(host, { all: true })) {
    try {
      bound = await listen(address, bound)
    } catch (error) {
      problem = error
    }
  }
  if (servers.length === 0) throw problem
  return {
    port: bound,
    connections: () => open.size,
    async close() {
      for (const server of servers) server.close()
      if (open.size === 0) return
      await new Promise<void>((resolve) => {
        onAllEnded = resolve
      })
    },
    cut() {
      for (const socket of open) socket.destroy()
    },
  }
}
