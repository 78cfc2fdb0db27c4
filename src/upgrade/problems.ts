/** What can be wrong with a query: the one place where it gets its gRPC code, over gRPC and HTTP alike. */
import { status } from '@grpc/grpc-js'
import { StoreUnavailable } from '../events/event-store.ts'
import { UpgradeUnavailable } from './answers.ts'

/** An argument that can't be what the method asks for. */
export class InvalidArgument extends Error {
  override readonly name = 'InvalidArgument'
}

/** Rule 2 of the spec for a module that does not exist, in the chain's own words. */
export class UnknownModule extends Error {
  override readonly name = 'UnknownModule'

  constructor(module: string) {
    super(`x/upgrade: QueryModuleVersions module ${shortened(module)} not found`)
  }
}

/** As much of a client's text as is said back; a character is not cut in two. */
function shortened(text: string): string {
  const start = text.slice(0, MAX_ECHO)
  return text.length > MAX_ECHO && /[\ud800-\udbff]$/.test(start) ? start.slice(0, -1) : start
}

const MAX_ECHO = 200

export interface Problem {
  code: status
  message: string
}

/** Only our own words: what nobody foresaw shows no internals. */
export function problemOf(error: unknown): Problem {
  if (error instanceof UpgradeUnavailable || error instanceof StoreUnavailable) {
    return { code: status.UNAVAILABLE, message: 'the projections are catching up; try again' }
  }
  if (error instanceof UnknownModule) return { code: status.NOT_FOUND, message: error.message }
  if (error instanceof InvalidArgument || isClientsFault(error)) {
    return { code: status.INVALID_ARGUMENT, message: shortened(error.message) }
  }
  return { code: status.INTERNAL, message: 'internal error' }
}

/** What fastify itself found wrong with a request. */
function isClientsFault(error: unknown): error is Error {
  if (!(error instanceof Error)) return false
  return 'statusCode' in error && typeof error.statusCode === 'number' && error.statusCode < 500
}

/** As gateways map gRPC's codes to HTTP. */
export function httpStatusOf(code: status): number {
  switch (code) {
    case status.INVALID_ARGUMENT:
      return 400
    case status.NOT_FOUND:
      return 404
    case status.UNIMPLEMENTED:
      return 501
    case status.UNAVAILABLE:
      return 503
    default:
      return 500
  }
}
