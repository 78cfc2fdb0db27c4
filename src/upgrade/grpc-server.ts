/** The gRPC server: the upgrade Query service under both of its names, health and reflection. */
import { setTimeout as delay } from 'node:timers/promises'
import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  ServerInterceptingCall,
  type ServerInterceptor,
  status,
} from '@grpc/grpc-js'
import { ReflectionService } from '@grpc/reflection'
import type { FastifyBaseLogger } from 'fastify'
import { listenProblem } from '../config/listen-problem.ts'
import { limitReached } from '../errors/limits.ts'
import { renewCertificate } from '../http/connections/renewed-certificate.ts'
import { readCertificate, type TlsFiles } from '../http/connections/tls-files.ts'
import { type ConnectionLimits, listenForGrpc } from './grpc-connections.ts'
import { renewableCredentials } from './grpc-credentials.ts'
import { loadDescriptors } from './grpc-descriptors.ts'
import { createHealth } from './grpc-health.ts'
import { namePeer } from './grpc-peers.ts'
import { addQueries, type ObserveCall, QUERY_SERVICES, type QueryAnswers } from './grpc-queries.ts'

export interface GrpcOptions {
  /** IP address or host name. */
  host: string
  /** 0 means any free port. */
  port: number
  /** Undefined: no TLS. A renewed certificate in the files applies to new connections. */
  tls?: TlsFiles | undefined
  /** Interval of the checks of the certificate files, in milliseconds. */
  renewEveryMs?: number
  connections: ConnectionLimits
  /** Maximum size of a message, in both directions. */
  maxMessageBytes: number
  answers: QueryAnswers
  /** The status for the health service. Must be cheap: with watchers, it is called every 100 ms. */
  ready: () => boolean
  log: FastifyBaseLogger
  /** Observes each query. */
  observe?: ObserveCall
  /** Maximum wait of `stop` for running calls, in milliseconds. Default: 5000. */
  drainMs?: number
}

export interface GrpcServer {
  port: number
  /** Number of open connections. */
  connections(): number
  /** The address in the form that clients use: `127.0.0.1:9090`, `[::1]:9090`. */
  address: string
  /** Refuses new calls, waits for running ones, and aborts those that take too long. */
  stop(): Promise<void>
}

const DRAIN_MS = 5000

const TLS_NAMES = { cert: 'GRPC_TLS_CERT', key: 'GRPC_TLS_KEY' } as const

const LIMITS = {
  /** Per connection. Node itself limits header blocks to 64 KiB and 128 fields. */
  'grpc.max_concurrent_streams': 100,
  /** In MB per connection. A connection that uses more gets no further streams. */
  'grpc-node.max_session_memory': 32,
  /** Clients reconnect automatically. */
  'grpc.max_connection_idle_ms': 5 * 60_000,
  'grpc.keepalive_time_ms': 60_000,
  'grpc.keepalive_timeout_ms': 20_000,
}

/** Reads requests only as fast as the client reads the much larger answers, which would otherwise fill the memory. */
function applyBackpressure(stream: ServerDuplexStream<unknown, unknown>): void {
  stream.on('data', () => {
    if (!stream.writableNeedDrain) return
    stream.pause()
    stream.once('drain', () => stream.resume())
  })
}

function addReflection(server: Server, reflection: ReflectionService): void {
  reflection.addToServer({
    addService(service, implementation) {
      const answer = implementation.ServerReflectionInfo
      if (answer === undefined) throw new Error('the reflection service has no method ServerReflectionInfo')
      server.addService(service, {
        ServerReflectionInfo(stream: ServerDuplexStream<unknown, unknown>) {
          Reflect.apply(answer, implementation, [stream])
          applyBackpressure(stream)
        },
      })
    },
  })
}

/** Gives calls the addresses of their clients, and counts the messages that grpc-js itself refuses as too large. */
const watchCalls: ServerInterceptor = (_method, call) => {
  namePeer(call)
  const send = call.sendStatus.bind(call)
  call.sendStatus = (answer) => {
    if (answer.code === status.RESOURCE_EXHAUSTED) limitReached('grpc_message_bytes')
    send(answer)
  }
  return new ServerInterceptingCall(call)
}

/** @throws ConfigError when the certificate, the key, the host or the port cannot be used */
export async function startGrpc(options: GrpcOptions): Promise<GrpcServer> {
  const { answers, log, maxMessageBytes, observe = () => () => {} } = options
  const certificate = options.tls && (await readCertificate(options.tls, TLS_NAMES))
  const secure = certificate && renewableCredentials(certificate.pair)
  const descriptors = await loadDescriptors()
  const server = new Server({
    ...LIMITS,
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.max_send_message_length': maxMessageBytes,
    interceptors: [watchCalls],
  })
  for (const name of QUERY_SERVICES) addQueries(server, descriptors.service(name), answers, { log, observe })
  const health = createHealth(QUERY_SERVICES, options.ready)
  server.addService(descriptors.service('grpc.health.v1.Health'), { ...health.implementation })
  addReflection(server, new ReflectionService(descriptors.files))

  const injector = server.createConnectionInjector(secure?.credentials ?? ServerCredentials.createInsecure())
  const host = options.host.includes(':') ? `[${options.host}]` : options.host
  const listener = await listenForGrpc(options, options.connections, injector.injectConnection).catch(
    (error: unknown) => {
      server.forceShutdown()
      const settings = { host: 'HOST', port: 'GRPC_PORT' } as const
      throw listenProblem({ settings, host: options.host, port: options.port }, error)
    },
  )
  const { port } = listener
  const stopRenewal =
    certificate && secure
      ? renewCertificate(certificate, secure.renew, log, options.renewEveryMs)
      : () => undefined

  async function drain(): Promise<void> {
    stopRenewal()
    const drained = listener.close()
    health.close()
    const done = new AbortController()
    // Each connection ends after its last call. From Node 24 on, grpc-js calls back too early.
    server.tryShutdown(() => {})
    await Promise.race([
      drained,
      delay(options.drainMs ?? DRAIN_MS, undefined, { signal: done.signal }).catch(() => {}),
    ])
    done.abort()
    server.forceShutdown()
    listener.cut()
    await drained
  }

  let stopped: Promise<void> | undefined
  return {
    port,
    connections: listener.connections,
    address: `${host}:${port}`,
    stop() {
      stopped ??= drain()
      return stopped
    },
  }
}
