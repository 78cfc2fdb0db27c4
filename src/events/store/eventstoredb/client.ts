/** The driver's client, with our parser of connection strings and repairs of unsafe behaviour. */
import { readFileSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import { type ChannelCredentialOptions, EventStoreDBClient } from '@eventstore/db-client'
import streamsService from '@eventstore/db-client/generated/streams_grpc_pb.js'
import type streamsPb from '@eventstore/db-client/generated/streams_pb.js'
import type { ClientDuplexStream } from '@grpc/grpc-js'
import type { EventStoreDbUrl } from '../../../config/eventstoredb-url.ts'
import { StoreUnavailable } from '../event-store.ts'

/** Timeout of an answer, in milliseconds; `defaultDeadline` in the URL overrides it. */
export const DEADLINE = 5000

/** Timeout of a keep-alive ping (sent every 10 s), in milliseconds; `keepAliveTimeout` in the URL overrides it. */
const KEEP_ALIVE_TIMEOUT = 3000

/**
 * Timeout of a gossip request, in seconds; `gossipTimeout` in the URL overrides it. An unreachable node delays the search
 * for another one by this time.
 */
const GOSSIP_TIMEOUT = 2

/**
 * Reads the credentials of a connection once at startup, so that a missing file cannot break it later. @throws
 * StoreUnavailable when a file of the connection string cannot be read
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

const { StreamsClient } = streamsService

/** An open call for appends, with an answer to each. */
export type AppendCall = ClientDuplexStream<streamsPb.BatchAppendReq, streamsPb.BatchAppendResp>

/** A class, because the members to replace are protected in the driver. */
export class Client extends EventStoreDBClient {
  /**
   * Opens a call for appends to the leader. It ends with an error when the connection breaks, and with one that names
   * the leader when another node leads: the client connects to that one then. Otherwise a former leader would forward
   * appends forever, and answer reads late.
   */
  openAppends(): Promise<AppendCall> {
    const call = { requiresLeader: true }
    const open = this.GRPCStreamCreator(StreamsClient, 'batchAppend', (client) =>
      client.batchAppend(...this.callArguments(call, { deadline: Number.POSITIVE_INFINITY })),
    )
    return open()
  }

  /** Runs a command. On a failure that requires another node, the client looks for one. */
  watched<T>(command: () => Promise<T>): Promise<T> {
    return this.execute(StreamsClient, 'batchAppend', command)
  }

  /** `unusable` is called when the client found no node: it caches the failed search, so it then fails forever. */
  repair(unusable: () => void): void {
    // The driver's own batch appends are never used: see `appends.ts`.
    this.supports = async () => false
    // The driver does not await `handleError`, which fails when all nodes of a cluster are down. An unhandled rejection
    // would end the process. The operation itself fails with the error, too.
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
  /** Returns the current client. Do not keep it. */
  client(): Client
  close(): Promise<void>
}

/**
 * Connects at the first use, and reconnects after a loss.
 * @throws StoreUnavailable when a file that the connection string names cannot be read
 */
export function connect(url: EventStoreDbUrl): Connection {
  const credentials = readCredentials(url.options)
  let client = open()

  /** Clients that were replaced and are being closed. */
  const replaced = new Set<Promise<void>>()

  function open(): Client {
    const opened: Client = createClient(url, credentials, () => {
      if (client !== opened) return
      client = open()
      // It only has timers and sockets of its search.
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
