/** Limits the connections, incoming bodies and unread answers of clients. */
import type { FastifyInstance } from 'fastify'
import { addressesIn } from '../config/address-ranges.ts'
import type { Config } from '../config/config.ts'
import { limitUnreadBytes } from '../http/answers/unread-bytes.ts'
import { limitChunks } from '../http/bodies/body-chunks.ts'
import { limitBodies } from '../http/bodies/request-bodies.ts'
import { limitConnections } from '../http/connections/connections.ts'
import { limitProxiedRequests } from '../http/connections/proxied-requests.ts'
import { refuseAmbiguous } from '../http/requests/unreadable-requests.ts'

/** Returns a predicate for the addresses of `TRUST_PROXY`; undefined when it is not set. */
export const trustedProxies = ({ trustProxy }: Config) => trustProxy && addressesIn(trustProxy)

/** The limits of connections over HTTP and gRPC. */
export const connectionLimits = ({ maxConnections, maxConnectionsPerAddress }: Config) => ({
  all: maxConnections,
  perNetwork: maxConnectionsPerAddress,
})

/** Adds the limits. Returns the current usage, for `/metrics`. `leaving`: aborted when the server is about to stop. */
export function limitClients(app: FastifyInstance, config: Config, leaving: AbortSignal) {
  const isProxy = trustedProxies(config)
  const clients = connectionLimits(config)
  const bytes = { all: config.maxUnreadBytes, perNetwork: config.maxUnreadBytes / 4 }
  const connections = limitConnections(app, clients, isProxy ?? (() => false), leaving)
  limitChunks(app)
  refuseAmbiguous(app)
  if (isProxy !== undefined) limitProxiedRequests(app, clients, isProxy)
  const unreadBytes = limitUnreadBytes(app, { ...bytes, timeoutMs: config.unreadTimeoutMs })
  const arriving = limitBodies(app, { ...bytes, timeoutMs: config.requestTimeoutMs })
  return { connections, unreadBytes, arriving }
}
