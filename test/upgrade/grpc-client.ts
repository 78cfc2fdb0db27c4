/** A gRPC server whose answers the test chooses, and real clients of it. */
import { fileURLToPath } from 'node:url'
import {
  type CallOptions,
  type ChannelCredentials,
  Client,
  credentials,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js'
import { type AnyDefinition, loadSync, type ServiceDefinition } from '@grpc/proto-loader'
import { pino } from 'pino'
import type { Test } from 'tap'
import type { QueryAnswers } from '../../src/upgrade/grpc-queries.ts'
import { type GrpcOptions, startGrpc } from '../../src/upgrade/grpc-server.ts'

/** The answers for a chain without data, except for those that the test gives. */
export function answering(known: Partial<QueryAnswers> = {}): QueryAnswers {
  return {
    currentPlan: async () => null,
    appliedHeight: async () => '0',
    moduleVersions: async (name) => (name === '' ? [] : undefined),
    authority: async () => '',
    upgradedConsensusState: async () => Buffer.alloc(0),
    ...known,
  }
}

/** Starts a server on a free port, which stops after the test. Returns its log lines too. */
export async function started(t: Test, options: Partial<GrpcOptions> = {}) {
  const logged: string[] = []
  const server = await startGrpc({
    host: '127.0.0.1',
    port: 0,
    maxMessageBytes: 2 ** 20,
    connections: { all: 1000, perNetwork: 1000, isProxy: () => false },
    answers: answering(),
    ready: () => true,
    log: pino({ level: 'info' }, { write: (line: string) => logged.push(line) }),
    drainMs: 200,
    ...options,
  })
  t.teardown(() => server.stop())
  return { server, logged }
}

/**
 * A client at an address. With TLS it requests the certificate of `localhost`: from Node 26 on, an address is not
 * allowed.
 */
export function clientOf(t: Test, address: string, creds: ChannelCredentials = credentials.createInsecure()) {
  const client = new Client(address, creds, { 'grpc.ssl_target_name_override': 'localhost' })
  t.teardown(() => client.close())
  return client
}

function isService(definition: AnyDefinition | undefined): definition is ServiceDefinition {
  return definition !== undefined && !('format' in definition)
}

/** Loads a service from its .proto file for a client. The path is absolute or relative to proto/. */
export function serviceIn(file: string, name: string): ServiceDefinition {
  const includeDirs = [fileURLToPath(new URL('../../proto', import.meta.url))]
  const definition = loadSync(file, {
    keepCase: true,
    longs: String,
    enums: String,
    defaults: true,
    includeDirs,
  })[name]
  if (!isService(definition)) throw new Error(`${file} has no service ${name}`)
  return definition
}

export const QUERY = {
  sdk: serviceIn('sdk/upgrade/v1beta1/query.proto', 'sdk.upgrade.v1beta1.Query'),
  cosmos: serviceIn('cosmos/upgrade/v1beta1/query.proto', 'cosmos.upgrade.v1beta1.Query'),
}

/** Makes one call. Rejects with the ServiceError. */
export function call(
  client: Client,
  service: ServiceDefinition,
  name: string,
  request: object = {},
  options: CallOptions = {},
): Promise<unknown> {
  const method = service[name]
  if (method === undefined) throw new Error(`no method ${name}`)
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      request,
      new Metadata(),
      options,
      (error, response) => (error ? reject(error) : resolve(response)),
    )
  })
}

/** Makes one call with the raw bytes of a request. Resolves to the bytes of the response. */
export function rawCall(
  client: Client,
  path: string,
  request: Uint8Array,
  metadata = new Metadata(),
): Promise<Buffer> {
  const same = (bytes: Buffer) => bytes
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, same, same, Buffer.from(request), metadata, {}, (error, response) =>
      error ? reject(error) : resolve(response ?? Buffer.alloc(0)),
    )
  })
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'details' in error
}

/** The status of a call that must fail. */
export async function refused(calling: Promise<unknown>): Promise<{ code: number; details: string }> {
  const answer = await calling.catch((error: unknown) => error)
  if (isServiceError(answer)) return { code: answer.code, details: answer.details }
  throw answer instanceof Error ? answer : new Error(`answered: ${JSON.stringify(answer)}`)
}
