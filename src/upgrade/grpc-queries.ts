/** The five methods of the upgrade Query service over gRPC: from the bytes of a request to those of a response. */
import { type handleUnaryCall, type Metadata, type Server, status } from '@grpc/grpc-js'
import type { ServiceDefinition } from '@grpc/proto-loader'
import type { FastifyBaseLogger } from 'fastify'
import type { ModuleVersion, UpgradePlan } from '../events/catalog/upgrade.ts'
import type { UpgradeAnswers } from './answers.ts'
import { decodeText } from './grpc-descriptors.ts'
import { InvalidArgument, problemOf, UnknownModule } from './problems.ts'

/** The answers for the methods. Plans and lists must be immutable: their bytes are cached. */
export type QueryAnswers = Omit<UpgradeAnswers, 'ready' | 'applied' | 'exchanged'>

/** The service's own name, and the name that existing clients of chains use. */
export const QUERY_SERVICES = ['sdk.upgrade.v1beta1.Query', 'cosmos.upgrade.v1beta1.Query'] as const

/** A decoded request: the value of its only field as text (empty without a field), or the error. */
type Request = { readonly value: string } | { readonly malformed: InvalidArgument }

type Decode = (bytes: Buffer) => object
type Encode = (response: object) => Buffer

interface Method {
  /** @throws Error when the bytes are malformed */
  readonly read: (bytes: Buffer) => string
  /** Resolves to the bytes of the response. */
  readonly answer: (value: string) => Promise<Buffer>
}

/** Caches the encoded bytes of an answer. An unchanged answer is the same object. */
function cachedEncode<T extends object>(encode: (answer: T) => Buffer): (answer: T) => Buffer {
  const encoded = new WeakMap<T, Buffer>()
  return (answer) => {
    const known = encoded.get(answer)
    if (known !== undefined) return known
    const bytes = encode(answer)
    encoded.set(answer, bytes)
    return bytes
  }
}

/** Go's zero time as a protobuf timestamp. Chains send it in every plan, and their clients expect it. */
const ZERO_TIME = { seconds: '-62135596800' }

/** Returns a field's value; undefined for the default, which is not on the wire but which protobufjs would write. */
const unless = (defaultValue: '' | '0', value: string) => (value === defaultValue ? undefined : value)

/** Creates each method from the functions that decode and encode its messages, and the answers. */
const METHODS: Readonly<Record<string, (decode: Decode, encode: Encode, answers: QueryAnswers) => Method>> = {
  CurrentPlan(decode, encode, answers) {
    const scheduled = cachedEncode(({ name, height, info }: UpgradePlan) =>
      encode({
        plan: {
          name: unless('', name),
          time: ZERO_TIME,
          height: unless('0', height),
          info: unless('', info),
        },
      }),
    )
    const none = encode({})
    return {
      read: readEmpty(decode),
      async answer() {
        const plan = await answers.currentPlan()
        return plan === null ? none : scheduled(plan)
      },
    }
  },
  AppliedPlan: (_decode, encode, answers) => ({
    read: decodeText,
    answer: async (name) => encode({ height: unless('0', await answers.appliedHeight(name)) }),
  }),
  UpgradedConsensusState: (decode, encode, answers) => ({
    read: (bytes) => String(Reflect.get(decode(bytes), 'last_height')),
    async answer(height) {
      const state = await answers.upgradedConsensusState(height)
      return encode({ upgraded_consensus_state: state.length === 0 ? undefined : state })
    },
  }),
  ModuleVersions(_decode, encode, answers) {
    const encodeVersions = (versions: readonly ModuleVersion[]) =>
      encode({
        module_versions: versions.map(({ name, version }) => ({
          name: unless('', name),
          version: unless('0', version),
        })),
      })
    const all = cachedEncode(encodeVersions)
    return {
      read: decodeText,
      async answer(name) {
        const versions = await answers.moduleVersions(name)
        if (versions === undefined) throw new UnknownModule(name)
        return name === '' ? all(versions) : encodeVersions(versions)
      },
    }
  },
  Authority: (decode, encode, answers) => ({
    read: readEmpty(decode),
    answer: async () => encode({ address: unless('', await answers.authority()) }),
  }),
}

/** Reads a request that has no fields. */
function readEmpty(decode: Decode): (bytes: Buffer) => string {
  return (bytes) => {
    decode(bytes)
    return ''
  }
}

/** Decodes a request without throwing: otherwise grpc-js would answer INTERNAL instead of INVALID_ARGUMENT. */
function safely(read: (bytes: Buffer) => string): (bytes: Buffer) => Request {
  return (bytes) => {
    try {
      return { value: read(bytes) }
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      return { malformed: new InvalidArgument(`the request is malformed: ${reason}`) }
    }
  }
}

/** The status of a failed call. */
function refusalOf(error: unknown, log: FastifyBaseLogger, method: string) {
  const { code, message } = problemOf(error)
  if (code === status.INTERNAL) log.error({ err: error, method }, 'an upgrade query failed')
  // Replaces a lone surrogate at the end of a shortened message, for which grpc-js would throw.
  return { code, details: Buffer.from(message).toString() }
}

/** Observes the start of a query; the returned function is called with its final status. */
export type ObserveCall = (
  method: string,
  call: { getPeer(): string; metadata: Metadata },
) => (code: status) => void

interface Observers {
  log: FastifyBaseLogger
  observe: ObserveCall
}

function handlerOf(
  name: string,
  method: Method,
  { log, observe }: Observers,
): handleUnaryCall<Request, Buffer> {
  return (call, answered) => {
    const end = observe(name, call)
    const callback: typeof answered = (error, response) => {
      end(error?.code ?? status.OK)
      answered(error, response)
    }
    // Don't answer a cancelled or late call. grpc-js's own timer may be late under load.
    if (call.cancelled || Number(call.getDeadline()) <= Date.now()) {
      callback({ code: status.DEADLINE_EXCEEDED, details: 'Deadline exceeded' })
      return
    }
    const { request } = call
    const answer = 'malformed' in request ? Promise.reject(request.malformed) : method.answer(request.value)
    answer.then(
      (response) => callback(null, response),
      (error: unknown) => callback(refusalOf(error, log, name)),
    )
  }
}

/** Adds a Query service, as proto/ defines it, to a server. */
export function addQueries(
  server: Server,
  service: ServiceDefinition,
  answers: QueryAnswers,
  observers: Observers,
): void {
  for (const [name, definition] of Object.entries(service)) {
    const method = METHODS[name]?.(definition.requestDeserialize, definition.responseSerialize, answers)
    if (method === undefined) throw new Error(`no method answers ${definition.path}`)
    const inBytes = {
      ...definition,
      requestDeserialize: safely(method.read),
      responseSerialize: (response: Buffer) => response,
    }
    server.addService({ [name]: inBytes }, { [name]: handlerOf(name, method, observers) })
  }
}
