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
  /** Gives its place back. */
  give: () => void
}

/**
 * Requests of one connection without an answer; they wait for each other. Browsers, git and Gitea's clients wait for an
 * answer before they send the next request on the same connection.
 */
const MAX_REQUESTS = 16

/** Names an open connection: the one end is this server, and the other end has no second one with the same port. */
const placeOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket) =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`

/**
 * When there are too many connections, the one without a request for the longest time is closed: of the newcomer's
 * network when that has too many, else of the network that has most. When none can be closed, the newcomer is.
 *
 * @param isProxy whether this is the address of a trusted proxy. It speaks for many clients, so it has no limit here.
 * @param leaving when it is aborted, each connection ends with its next answer, which says so: clients and proxies do
 *   not send a further request into a connection that is about to close
 * @returns how many connections are open now
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
  // In the order in which they became idle. A new one, which has had no request yet, is idle, too.
  const idle = new Set<Connection>()
  const hasTls = 'setSecureContext' in app.server
  let isClosing = false
  const open = new Set<Connection>()

  function end(connection: Connection): void {
    connection.give()
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

  // Closes idle connections first, since they lose least, and then all.
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
    const give = isLimited ? shares.take(network, 1) : () => {}
    const connection: Connection = { socket, network, requests: 0, isBusy: false, held: [], give }
    connections.set(socket, connection)
    idle.add(connection)
    const place = placeOf(socket)
    if (hasTls) beforeHandshake.set(place, connection)
    open.add(connection)
    socket.once('close', () => {
      open.delete(connection)
      end(connection)
      if (beforeHandshake.get(place) === connection) beforeHandshake.delete(place)
    })
  })

  app.server.on('secureConnection', (socket: Socket) => {
    const place = placeOf(socket)
    const connection = beforeHandshake.get(place)
    beforeHandshake.delete(place)
    // The connection closed meanwhile, or was evicted.
    if (connection === undefined) return void socket.destroy()
    connection.socket = socket
    connections.set(socket, connection)
  })

  // Fastify's own listener comes after this one: a request that waits costs no more than its head.
  const [work] = app.server.listeners('request')
  if (work === undefined) throw new Error('nobody listens for requests')
  app.server.removeAllListeners('request')

  app.server.on('request', (request: IncomingMessage, answer: ServerResponse) => {
    const { socket } = request
    const connection = connections.get(socket)
    if (connection === undefined) return void work.call(app.server, request, answer)
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
      // An answer that began before the app was to close has promised to keep the connection.
      if (isClosing) socket.destroySoon()
      else idle.add(connection)
    })
    // A request must not inherit the async context of earlier ones.
    const scope = new AsyncResource('REQUEST')
    const begin = () => scope.runInAsyncScope(() => void work.call(app.server, request, answer))
    connection.held.push({ request, begin })
    // Not before all has been read that came together: perhaps it is too much.
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

  // The answers must have the order of the requests anyway. An answer that waits for another one would only take memory.
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
