/** The driver's client, made from our own reading of the connection string, and repaired where it is unsafe. */
import { readFileSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import { type ChannelCredentialOptions, EventStoreDBClient } from '@eventstore/db-client'
import type { EventStoreDbUrl } from '../eventstoredb-url.ts'
import { StoreUnavailable } from './event-store.ts'

/** How long the server may take to answer, in milliseconds; `defaultDeadline` in the URL overrides it. */
export const DEADLINE = 5000

/**
 * How long the server may take to answer a keep-alive ping (sent every 10 s), in milliseconds; `keepAliveTimeout` in
 * the URL overrides it.
 */
const KEEP_ALIVE_TIMEOUT = 3000

/**
 * How long a node may take to name the others, in seconds; `gossipTimeout` in the URL overrides it. A node that is cut
 * off delays the search for another by this time.
 */
const GOSSIP_TIMEOUT = 2

/**
 * The credentials of all clients of a connection. They are read once, at the start: while requests are served, no file
 * is read, and none can be missing.
 * @throws StoreUnavailable when a file that the connection string names cannot be read
 */
function readCredentials({
  tls,
  tlsCAFile,
  userCertFile,
  userKeyFile,
}: EventStoreDbUrl['options']): ChannelCredentialOptions {
  return {
    insecure: !tls,
    ...(tlsCAFile !== undefined && { rootCertificate: contentsOf('tlsCAFile', tlsCAFile) }),
    ...(userCertFile !== undefined && { userCertFile: contentsOf('userCertFile', userCertFile) }),
    ...(userKeyFile !== undefined && { userKeyFile: contentsOf('userKeyFile', userKeyFile) }),
  }
}

function createClient(
  { discovers, hosts, user, options }: EventStoreDbUrl,
  credentials: ChannelCredentialOptions,
  unusable: () => void,
) {
  const { tls: _tls, tlsCAFile: _ca, userCertFile: _cert, userKeyFile: _key, ...given } = options
  const settings = {
    ...given,
    defaultDeadline: given.defaultDeadline ?? DEADLINE,
    keepAliveTimeout: given.keepAliveTimeout ?? KEEP_ALIVE_TIMEOUT,
    gossipTimeout: given.gossipTimeout ?? GOSSIP_TIMEOUT,
  }
  const [endpoint] = hosts
  if (endpoint === undefined) throw new TypeError('the connection string names no host')
  const isCluster = discovers || hosts.length > 1
  const client = isCluster
    ? new Client({ ...settings, endpoints: hosts }, credentials, user)
    : new Client({ ...settings, endpoint }, credentials, user)
  client.repair(unusable)
  return client
}

function contentsOf(option: string, file: string): Buffer {
  try {
    return readFileSync(isAbsolute(file) ? file : resolve(file))
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? error.code : 'unknown error'
    throw new StoreUnavailable(`EVENTSTORE_URL: the file of its option ${option} cannot be read (${reason})`)
  }
}

/** A class, because only a class may replace what the driver declares as protected. */
class Client extends EventStoreDBClient {
  /** `unusable` is called when the client found no node. It then fails for ever, because it keeps the failed search. */
  repair(unusable: () => void): void {
    // The client prefers batch appends when the server supports them. We force plain appends: each has its own
    // deadline and fails alone. Batch appends have no deadline and share one waiting list in the whole process. When
    // one connection breaks, the appends of all connections fail, and late answers throw errors that cannot be caught.
    this.supports = async () => false
    // The driver does not await `handleError`, which fails when all nodes of a cluster are away. A rejection that
    // nobody handles would end the process. The operation itself fails with the error, too.
    const { handleError, getChannel } = this
    this.handleError = (client, error) => handleError(client, error).catch(() => {})
    this.getChannel = () =>
      getChannel().catch((error: unknown) => {
        unusable()
        throw error
      })
  }
}

export interface Connection {
  /** The client to use now. Do not keep it. */
  client(): EventStoreDBClient
  close(): Promise<void>
}

/**
 * Connects at the first use, and again after the connection was lost.
 * @throws StoreUnavailable when a file that the connection string names cannot be read
 */
export function connect(url: EventStoreDbUrl): Connection {
  const credentials = readCredentials(url.options)
  let client = open()

  /** Clients that were replaced and are being closed. */
  const replaced = new Set<Promise<void>>()

  function open(): EventStoreDBClient {
    const opened: EventStoreDBClient = createClient(url, credentials, () => {
      if (client !== opened) return
      client = open()
      // It has no connection that others might still use, but timers and sockets of its search.
      const closing = opened.dispose().catch(() => {})
      replaced.add(closing)
      closing.finally(() => replaced.delete(closing))
    })
    return opened
  }

  return {
    client: () => client,
    async close() {
      await Promise.all([client.dispose(), ...replaced])
    },
  }
}
