/** One node: a gRPC server over what the nodes share. */
import gossipService from '@eventstore/db-client/generated/gossip_grpc_pb.js'
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
import { createGate } from './admission.ts'
import { append, batchAppend, softDelete, tombstone } from './append.ts'
import { type Core, HOST } from './core.ts'
import { gossip } from './gossip.ts'
import { read } from './read.ts'

/** The version of EventStoreDB whose behaviour the double copies. */
const VERSION = '23.10.6'

const SUPPORTED = [streamsService.StreamsService, gossipService.GossipService, features.ServerFeaturesService]

const UNSUPPORTED = [
  monitoring.MonitoringService,
  operations.OperationsService,
  persistent.PersistentSubscriptionsService,
  projections.ProjectionsService,
  users.UsersService,
]

/** The PEM texts of a server's certificate and of its private key. */
export interface Tls {
  certificate: string
  key: string
}

export interface RunningNode {
  port: number
  /** Breaks all connections, like a server that dies. */
  stop(): void
}

/** Starts the node with this index of the cluster. With port 0 it uses a free port. */
export async function startNode(core: Core, index: number, port: number, tls?: Tls): Promise<RunningNode> {
  const { store, streams, access } = core
  const stopping = new AbortController()
  const gate = createGate(access, () => {
    const members = core.members()
    return { isLeader: members[index]?.isLeader === true, leader: members.find(({ isLeader }) => isLeader) }
  })
  const server = new Server({ 'grpc.max_receive_message_length': 17 * 1024 * 1024 })
  server.addService(streamsService.StreamsService, {
    read: read(store, streams, gate, stopping.signal, core.sent, core.scavenged),
    append: append(streams, gate),
    batchAppend: batchAppend(streams, gate),
    delete: softDelete(streams, gate),
    tombstone: tombstone(streams, gate),
  })
  server.addService(gossipService.GossipService, { read: gossip(core.members) })
  server.addService(features.ServerFeaturesService, {
    getSupportedMethods: (_call, callback) => callback(null, supportedMethods()),
  } satisfies features.IServerFeaturesServer)
  for (const service of UNSUPPORTED) server.addService(service, notSupported(service))

  const credentials =
    tls === undefined
      ? ServerCredentials.createInsecure()
      : ServerCredentials.createSsl(null, [
          { private_key: Buffer.from(tls.key), cert_chain: Buffer.from(tls.certificate) },
        ])
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`${HOST}:${port}`, credentials, (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    )
  })
  return {
    port: bound,
    stop() {
      stopping.abort()
      server.forceShutdown()
    },
  }
}

function supportedMethods(): featuresPb.SupportedMethods {
  const answer = new featuresPb.SupportedMethods().setEventStoreServerVersion(VERSION)
  for (const service of SUPPORTED) {
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
