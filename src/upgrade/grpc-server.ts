/** The gRPC server: the upgrade Query service under both of its names, health and reflection. */
import { setTimeout as delay } from 'node:timers/promises'
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js'
import { ReflectionService } from '@grpc/reflection'
import type { FastifyBaseLogger } from 'fastify'
import { ConfigError } from '../config.ts'
import { loadDescriptors } from './grpc-descriptors.ts'
import { createHealth } from './grpc-health.ts'
import { addQueries, QUERY_SERVICES, type QueryAnswers } from './grpc-queries.ts'
import { type TlsFiles, tlsCredentials } from './grpc-tls.ts'

export interface GrpcOptions {
  /** IP address or host name. */
  host: string
  /** 0: any free port. */
  port: number
  /** Undefined: without TLS. */
  tls?: TlsFiles | undefined
  /** Of one message, either way. */
  maxMessageBytes: number
  answers: QueryAnswers
  /** What the health service says: cheap, asked at every check, and several times a second while watched. */
  ready: () => boolean
  log: FastifyBaseLogger
  /** How long `stop` waits for calls to end, in milliseconds; 5000 if left out. */
  drainMs?: number
}

export interface GrpcServer {
  port: number
  /** As clients take it: `127.0.0.1:9090`, `[::1]:9090`. */
  address: string
  /** Takes no more calls, lets those end that are under way, and cuts off those that do not. */
  stop(): Promise<void>
}

const DRAIN_MS = 5000

const LIMITS = {
  /** Per connection; header blocks are bounded by node, to 64 KiB and 128 fields. */
  'grpc.max_concurrent_streams': 100,
  /** In MB per connection: one that holds more gets no further streams. */
  'grpc-node.max_session_memory': 32,
  /** Clients connect again by themselves. */
  'grpc.max_connection_idle_ms': 5 * 60_000,
  'grpc.keepalive_time_ms': 60_000,
  'grpc.keepalive_timeout_ms': 20_000,
}

/** An answer is many times its question: who asks on without reading answers would fill the memory. */
function pace(stream: ServerDuplexStream<unknown, unknown>): void {
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
      if (answer === undefined) throw new Error('the reflection service has another method now')
      server.addService(service, {
        ServerReflectionInfo(stream: ServerDuplexStream<unknown, unknown>) {
          Reflect.apply(answer, implementation, [stream])
          pace(stream)
        },
      })
    },
  })
}

function listen(server: Server, address: string, credentials: ServerCredentials): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, port) => {
      if (error === null) resolve(port)
      else reject(new ConfigError('GRPC_PORT', `can not be listened on at ${address}: ${error.message}`))
    })
  })
}

/** @throws ConfigError when the certificate, the key, the host or the port can not be used */
export async function startGrpc(options: GrpcOptions): Promise<GrpcServer> {
  const { answers, log, maxMessageBytes } = options
  const credentials = options.tls ? await tlsCredentials(options.tls) : ServerCredentials.createInsecure()
  const descriptors = await loadDescriptors()
  const server = new Server({
    ...LIMITS,
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.max_send_message_length': maxMessageBytes,
  })
  for (const name of QUERY_SERVICES) addQueries(server, descriptors.service(name), answers, log)
  const health = createHealth(QUERY_SERVICES, options.ready)
  server.addService(descriptors.service('grpc.health.v1.Health'), { ...health.implementation })
  addReflection(server, new ReflectionService(descriptors.files))

  const host = options.host.includes(':') ? `[${options.host}]` : options.host
  const port = await listen(server, `${host}:${options.port}`, credentials)

  async function drain(): Promise<void> {
    health.close()
    const done = new AbortController()
    const drained = new Promise<void>((resolve) => server.tryShutdown(() => resolve()))
    await Promise.race([
      drained,
      delay(options.drainMs ?? DRAIN_MS, undefined, { signal: done.signal }).catch(() => {}),
    ])
    done.abort()
    server.forceShutdown()
    await drained
  }

  let stopped: Promise<void> | undefined
  return {
    port,
    address: `${host}:${port}`,
    stop() {
      stopped ??= drain()
      return stopped
    },
  }
}
