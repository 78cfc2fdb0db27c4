/** The errors of a query, and their gRPC codes, for gRPC and HTTP. */
import { status } from '@grpc/grpc-js'
import { type RefusalKind, Refused } from '../errors/refusal.ts'
import { StoreUnavailable } from '../events/store/event-store.ts'
import { UpgradeUnavailable } from './answers.ts'

/** Thrown for an invalid argument. */
export class InvalidArgument extends Error {
  override readonly name = 'InvalidArgument'
}

/** `upgrade.modules.2`: the module does not exist. The message is that of a chain. */
export class UnknownModule extends Error {
  override readonly name = 'UnknownModule'

  constructor(module: string) {
    super(`x/upgrade: QueryModuleVersions module ${shortened(module)} not found`)
  }
}

/** Shortens a client's text to 200 characters, for an error message. Does not split a surrogate pair. */
function shortened(text: string): string {
  const start = text.slice(0, 200)
  return start.length < text.length && /[\ud800-\udbff]$/.test(start) ? start.slice(0, -1) : start
}

export interface Problem {
  code: status
  message: string
  /** Whether retries are useless. */
  lasts?: boolean
}

/** The code and message for an error. The message for an unexpected error reveals no internals. */
export function problemOf(error: unknown): Problem {
  if (error instanceof UpgradeUnavailable) {
    return { code: status.UNAVAILABLE, message: error.message, lasts: error.lasts }
  }
  if (error instanceof StoreUnavailable) {
    return { code: status.UNAVAILABLE, message: 'the projections are catching up; try again' }
  }
  if (error instanceof Refused) {
    const code = REFUSALS.get(error.refusal.refused)
    if (code !== undefined) return { code, message: error.message }
  }
  if (error instanceof UnknownModule) return { code: status.NOT_FOUND, message: error.message }
  if (error instanceof InvalidArgument || isClientsFault(error)) {
    return { code: status.INVALID_ARGUMENT, message: shortened(error.message) }
  }
  return { code: status.INTERNAL, message: 'internal error' }
}

/** Codes for refusals by the hooks of all requests: a starting server, too many requests. */
const REFUSALS = new Map<RefusalKind, status>([
  ['unavailable', status.UNAVAILABLE],
  ['tooManyRequests', status.RESOURCE_EXHAUSTED],
])

/** Whether fastify refused the request as invalid. */
function isClientsFault(error: unknown): error is Error {
  if (!(error instanceof Error)) return false
  return 'statusCode' in error && typeof error.statusCode === 'number' && error.statusCode < 500
}

/** The HTTP status for a gRPC code, as gateways map it. */
export const httpStatusOf = (code: status): number => HTTP_STATUS.get(code) ?? 500

const HTTP_STATUS = new Map([
  [status.INVALID_ARGUMENT, 400],
  [status.NOT_FOUND, 404],
  [status.RESOURCE_EXHAUSTED, 429],
  [status.UNIMPLEMENTED, 501],
  [status.UNAVAILABLE, 503],
])
