/** The five methods of the upgrade Query service over gRPC: bytes of a request in, bytes of a response out. */
import { type handleUnaryCall, type Server, type StatusObject, status } from '@grpc/grpc-js'
import type { ServiceDefinition } from '@grpc/proto-loader'
import type { FastifyBaseLogger } from 'fastify'
import type { ModuleVersion, UpgradePlan } from '../events/upgrade-events.ts'
import type { UpgradeAnswers } from './answers.ts'
import { decodeText } from './grpc-descriptors.ts'
import { InvalidArgument, problemOf, UnknownModule } from './problems.ts'

/** What the methods ask; see `UpgradeAnswers`. Plans and lists that it gives out must never change. */
export type QueryAnswers = Pick<
  UpgradeAnswers,
  'currentPlan' | 'appliedHeight' | 'moduleVersions' | 'authority' | 'upgradedConsensusState'
>

/** The service itself, and the name by which existing clients of chains call it. */
export const QUERY_SERVICES = ['sdk.upgrade.v1beta1.Query', 'cosmos.upgrade.v1beta1.Query'] as const

/** How the call ends when it is not answered. */
type Refusal = Pick<StatusObject, 'code' | 'details'>

/** A request never has more than one field: its value as text, empty when it has none. Or what is wrong. */
type Request = { readonly value: string } | { readonly malformed: InvalidArgument }

type Decode = (bytes: Buffer) => object
type Encode = (response: object) => Buffer

interface Method {
  /** @throws Error when the bytes are malformed */
  readonly read: (bytes: Buffer) => string
  /** A response in bytes. */
  readonly answer: (value: string) => Promise<Buffer>
}

/** Encodes an answer once: it is the same object for as long as it says the same. */
function once<T extends object>(encode: (answer: T) => Buffer): (answer: T) => Buffer {
  const encoded = new WeakMap<T, Buffer>()
  return (answer) => {
    const known = encoded.get(answer)
    if (known !== undefined) return known
    const bytes = encode(answer)
    encoded.set(answer, bytes)
    return bytes
  }
}

/** What Go's zero time is on the wire: chains send it in every plan, and their clients expect it. */
const ZERO_TIME = { seconds: '-62135596800', nanos: 0 }

/** By the name of each method, what makes it of its protobuf types and the answers. */
const METHODS: Readonly<Record<string, (decode: Decode, encode: Encode, answers: QueryAnswers) => Method>> = {
  CurrentPlan(decode, encode, answers) {
    const scheduled = once(({ name, height, info }: UpgradePlan) =>
      encode({ plan: { name, time: ZERO_TIME, height, info } }),
    )
    const none = encode({})
    return {
      read: nothing(decode),
      async answer() {
        const plan = await answers.currentPlan()
        return plan === null ? none : scheduled(plan)
      },
    }
  },
  AppliedPlan: (_decode, encode, answers) => ({
    read: decodeText,
    answer: async (name) => encode({ height: await answers.appliedHeight(name) }),
  }),
  UpgradedConsensusState: (decode, encode, answers) => ({
    read: (bytes) => String(Reflect.get(decode(bytes), 'last_height')),
    answer: async (height) =>
      encode({ upgraded_consensus_state: await answers.upgradedConsensusState(height) }),
  }),
  ModuleVersions(_decode, encode, answers) {
    const all = once((versions: readonly ModuleVersion[]) => encode({ module_versions: versions }))
    return {
      read: decodeText,
      async answer(name) {
        const versions = await answers.moduleVersions(name)
        if (versions === undefined) throw new UnknownModule(name)
        return name === '' ? all(versions) : encode({ module_versions: versions })
      },
    }
  },
  Authority: (decode, encode, answers) => ({
    read: nothing(decode),
    answer: async () => encode({ address: await answers.authority() }),
  }),
}

/** Reads a request that has no fields. */
function nothing(decode: Decode): (bytes: Buffer) => string {
  return (bytes) => {
    decode(bytes)
    return ''
  }
}

/** Reading never throws: what grpc-js makes of a throw is INTERNAL, as if it was the server's fault. */
function request(read: (bytes: Buffer) => string): (bytes: Buffer) => Request {
  return (bytes) => {
    try {
      return { value: read(bytes) }
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      return { malformed: new InvalidArgument(`the request is malformed: ${reason}`) }
    }
  }
}

function refusalOf(error: unknown, log: FastifyBaseLogger, method: string): Refusal {
  const { code, message } = problemOf(error)
  if (code === status.INTERNAL) log.error({ err: error, method }, 'an upgrade query failed')
  // Half of a character, where a name was cut, would make grpc-js throw.
  return { code, details: Buffer.from(message).toString() }
}

function handlerOf(name: string, method: Method, log: FastifyBaseLogger): handleUnaryCall<Request, Buffer> {
  return (call, callback) => {
    // A call that nobody waits for any more is not worked on. Its timer may be late, when much goes on.
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
  log: FastifyBaseLogger,
): void {
  for (const [name, definition] of Object.entries(service)) {
    const method = METHODS[name]?.(definition.requestDeserialize, definition.responseSerialize, answers)
    if (method === undefined) throw new Error(`${definition.path} is not implemented`)
    const inBytes = {
      ...definition,
      requestDeserialize: request(method.read),
      responseSerialize: (response: Buffer) => response,
    }
    server.addService({ [name]: inBytes }, { [name]: handlerOf(name, method, log) })
  }
}
