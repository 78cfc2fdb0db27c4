/**
 * A server that speaks EventStoreDB's protocol and stores events in the embedded event store. It serves tests, and to
 * try clients. It has streams, $all, subscriptions and deletes, but no cluster, TLS, users or projections.
 *
 *   npx tsx test/doubles/eventstore.ts --port 2113 --data DIR
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import gossip from '@eventstore/db-client/generated/gossip_grpc_pb.js'
import monitoring from '@eventstore/db-client/generated/monitoring_grpc_pb.js'
import operations from '@eventstore/db-client/generated/operations_grpc_pb.js'
import persistent from '@eventstore/db-client/generated/persistent_grpc_pb.js'
import projections from '@eventstore/db-client/generated/projections_grpc_pb.js'
import features from '@eventstore/db-client/generated/serverfeatures_grpc_pb.js'
import featuresPb from '@eventstore/db-client/generated/serverfeatures_pb.js'
import streamsService from '@eventstore/db-client/generated/streams_grpc_pb.js'
import users from '@eventstore/db-client/generated/users_grpc_pb.js'
import {
  Server,
  ServerCredentials,
  type ServiceDefinition,
  status,
  type UntypedHandleCall,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { openSqliteEventStore } from '../../src/events/sqlite.ts'
import { append, batchAppend, softDelete, tombstone } from './eventstore/append.ts'
import { read } from './eventstore/read.ts'
import { openStreams } from './eventstore/streams.ts'

/** The version of EventStoreDB whose behaviour the double copies. */
const VERSION = '24.10.0'

const UNSUPPORTED = [
  gossip.GossipService,
  monitoring.MonitoringService,
  operations.OperationsService,
  persistent.PersistentSubscriptionsService,
  projections.ProjectionsService,
  users.UsersService,
]

export interface EventStoreDouble {
  /** The connection string for EventStoreDB clients. */
  url: string
  port: number
  /** Breaks all connections, like a server that dies, and closes the log. */
  close(): Promise<void>
}

/** Starts the server on 127.0.0.1. With port 0 it uses a free port. `file` is its SQLite log. */
export async function startEventStoreDouble(options: {
  port: number
  file: string
}): Promise<EventStoreDouble> {
  // Not linked: a server stores the events as its clients send them, and the clients write the hash chain.
  const store = openSqliteEventStore(options.file, { linked: false })
  const streams = openStreams(store)
  const stopping = new AbortController()
  const server = new Server({ 'grpc.max_receive_message_length': 17 * 1024 * 1024 })
  server.addService(streamsService.StreamsService, {
    read: read(store, streams, stopping.signal),
    append: append(streams),
    batchAppend: batchAppend(streams),
    delete: softDelete(streams),
    tombstone: tombstone(streams),
  })
  server.addService(features.ServerFeaturesService, {
    getSupportedMethods: (_call, callback) => callback(null, supportedMethods()),
  } satisfies features.IServerFeaturesServer)
  for (const service of UNSUPPORTED) server.addService(service, notSupported(service))

  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${options.port}`, ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    )
  })
  return {
    url: `esdb://127.0.0.1:${port}?tls=false`,
    port,
    async close() {
      stopping.abort()
      server.forceShutdown()
      await store.close()
    },
  }
}

function supportedMethods(): featuresPb.SupportedMethods {
  const answer = new featuresPb.SupportedMethods().setEventStoreServerVersion(VERSION)
  for (const service of [streamsService.StreamsService, features.ServerFeaturesService]) {
    for (const { path } of methodsOf(service)) {
      const [, serviceName = '', methodName = ''] = path.split('/')
      const method = new featuresPb.SupportedMethod().setServiceName(serviceName)
      answer.addMethods(method.setMethodName(methodName.toLowerCase()))
    }
  }
  return answer
}

function methodsOf(
  service: ServiceDefinition | object,
): { path: string; responseStream: boolean; name: string }[] {
  return Object.entries(service).map(([name, { path, responseStream }]) => ({ name, path, responseStream }))
}

function notSupported(service: object): UntypedServiceImplementation {
  const handlers: UntypedServiceImplementation = {}
  for (const { name, path, responseStream } of methodsOf(service)) {
    const refusal = { code: status.UNIMPLEMENTED, details: `${path}: not supported by the double` }
    const refuseStream: UntypedHandleCall = (call: NodeJS.EventEmitter) => call.emit('error', refusal)
    const refuse: UntypedHandleCall = (_call: unknown, callback: (error: object) => void) => callback(refusal)
    handlers[name] = responseStream ? refuseStream : refuse
  }
  return handlers
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { port: { type: 'string', default: '2113' }, data: { type: 'string' } },
  })
  const port = Number(values.port)
  if (values.data === undefined || !Number.isInteger(port) || port < 0 || port > 65535) {
    console.error('usage: npx tsx test/doubles/eventstore.ts --port 2113 --data DIR')
    process.exit(2)
  }
  mkdirSync(values.data, { recursive: true })
  const double = await startEventStoreDouble({ port, file: join(values.data, 'eventstore.db') })
  console.log(double.url)
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.once(signal, () => double.close().then(() => process.exit(0)))
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main()
