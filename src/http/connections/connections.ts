/**
 * Limits connections per network and in total. Requests of one connection are handled one at a time. Closes idle
 * connections when the app closes.
 */
import { AsyncResource } from 'node:async_hooks'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { type BudgetLimits, createBudget } from '../../concurrency/budget.ts'
import { scheduleWork } from '../../concurrency/event-loop.ts'
import { networkOf } from '../../config/address-ranges.ts'
import { limitReached } from '../../errors/limits.ts'
import { rejectWhenOutOfDescriptors } from './descriptor-limit.ts'

interface Connection {
  socket: Socket
  network: string
  /** Requests without a complete answer. */
  requests: number
  /** Whether one of them is being worked on. */
  isBusy: boolean
  /** Waiting requests in order. */
  held: { request: IncomingMessage; begin: () => void }[]
  /** Frees its share of the limits. */
  release: () => void
}

/**
 * Requests of one connection without an answer; they wait for each other. Browsers, git and Gitea's clients wait for an
 * answer before they send the next request on the same connection.
 */
const MAX_REQUESTS = 16

/** Identifies an open connection by both addresses and ports. */
const keyOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket) =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`

/**
 * At the limit, closes the connection that has been idle longest: of the new connection's network if that has too many,
 * else of the network with most connections. Closes the new connection if none is idle.
 *
 * @param isProxy whether an address is a trusted proxy. It forwards for many clients, so it has no limit here.
 * @param leaving after its abort, each answer closes its connection: clients and proxies then send no
 * further request into it
 * @returns the number of open connections
 */
export function limitConnections(
  app: FastifyInstance,
  limits: BudgetLimits,
  isProxy: (address: string) => boolean,
  leaving: AbortSignal,
): () => number {
  const shares = createBudget(limits)
  const connections = new WeakMap<Socket, Connection>()
  // A connection with TLS counts before its handshake, and then has another socket.
  const beforeHandshake = new Map<string, Connection>()
  // The longest idle first. A new connection without a request is idle, too.
  const idle = new Set<Connection>()
  const hasTls = 'setSecureContext' in app.server
  let isClosing = false
  const open = new Set<Connection>()

  function end(connection: Connection): void {
    connection.release()
    idle.delete(connection)
  }

  function hasRoom(network: string): boolean {
    for (const connection of idle) {
      const lacking = shares.lacking(network, 1)
      if (lacking === undefined) return true
      if (connection.network !== (lacking === 'network' ? network : shares.largest())) continue
      end(connection)
      limitReached('connections')
      connection.socket.destroy()
    }
    return shares.lacking(network, 1) === undefined
  }

  // Closes idle connections first, because they lose least.
  rejectWhenOutOfDescriptors(app.server, () => {
    const [first] = idle.size > 0 ? idle : open
    if (first === undefined) return
    limitReached('connections')
    end(first)
    open.delete(first)
    first.socket.destroy()
  })

  app.server.on('connection', (socket: Socket) => {
    if (socket.destroyed) return
    const address = socket.remoteAddress ?? ''
    const network = networkOf(address)
    const isLimited = !isProxy(address)
    if (isLimited && !hasRoom(network)) {
      limitReached('connections')
      socket.destroy()
      return
    }
    const release = isLimited ? shares.take(network, 1) : () => {}
    const connection: Connection = { socket, network, requests: 0, isBusy: false, held: [], release }
    connections.set(socket, connection)
    idle.add(connection)
    const key = keyOf(socket)
    if (hasTls) beforeHandshake.set(key, connection)
    open.add(connection)
    socket.once('close', () => {
      open.delete(connection)
      end(connection)
      if (beforeHandshake.get(key) === connection) beforeHandshake.delete(key)
    })
  })

  app.server.on('secureConnection', (socket: Socket) => {
    const key = keyOf(socket)
    const connection = beforeHandshake.get(key)
    beforeHandshake.delete(key)
    // The connection closed meanwhile, or was evicted.
    if (connection === undefined) return void socket.destroy()
    connection.socket = socket
    connections.set(socket, connection)
  })

  // Fastify's own listener runs later: a waiting request costs only its head.
  const [handler] = app.server.listeners('request')
  if (handler === undefined) throw new Error('the server has no request listener')
  app.server.removeAllListeners('request')

  app.server.on('request', (request: IncomingMessage, answer: ServerResponse) => {
    const { socket } = request
    const connection = connections.get(socket)
    if (connection === undefined) return void handler.call(app.server, request, answer)
    if (leaving.aborted) answer.shouldKeepAlive = false
    connection.requests += 1
    idle.delete(connection)
    if (connection.requests > MAX_REQUESTS) close(connection, request)
    if (socket.destroyed) return
    // An answer that streams has more listeners than node expects.
    answer.setMaxListeners(20)
    answer.once('close', () => {
      connection.requests -= 1
      beginNext(connection)
      if (connection.requests > 0 || socket.destroyed) return
      // An answer that began before the shutdown has promised to keep the connection.
      if (isClosing) socket.destroySoon()
      else idle.add(connection)
    })
    // A request must not inherit the async context of earlier ones.
    const scope = new AsyncResource('REQUEST')
    const begin = () => scope.runInAsyncScope(() => void handler.call(app.server, request, answer))
    connection.held.push({ request, begin })
    // Only after everything that arrived together has been read: it may exceed the limit.
    if (!connection.isBusy) process.nextTick(beginNext, connection)
    connection.isBusy = true
  })

  function close({ socket, held }: Connection, last: IncomingMessage): void {
    if (!socket.destroyed) limitReached('connection_requests')
    socket.destroy()
    // Node would create an unused error with a stack for each.
    for (const { request } of held.splice(0)) request.destroy()
    last.destroy()
  }

  // Answers must have the order of the requests, so an earlier one would only wait in memory.
  function beginNext(connection: Connection): void {
    const next = connection.socket.destroyed ? undefined : connection.held.shift()
    connection.isBusy = next !== undefined
    next?.begin()
  }

  app.addHook('onRequest', ({ ip }, _reply, done) => scheduleWork(networkOf(ip), done))

  // Otherwise closing waits a minute for the first or the next request of each.
  app.addHook('preClose', async () => {
    isClosing = true
    for (const { socket } of idle) socket.destroy()
  })
  return () => open.size
}
