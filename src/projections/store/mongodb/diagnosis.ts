/** Explains in one line why MongoDB is unusable at startup, with the setting and the remedy. */
import { MongoAPIError, MongoServerSelectionError } from 'mongodb'
import { connectionAdvice } from '../../../config/connection-advice.ts'
import { StoreDenied, StoreUnavailable } from '../../../events/store/event-store.ts'

/** Returns the error for the operator. `error` is the store's error, with the driver's as its cause. */
export function mongoStartProblem(error: unknown): unknown {
  if (error instanceof StoreDenied) return error
  const cause = error instanceof StoreUnavailable ? error.cause : error
  const why = reasonOf(cause)
  return why === undefined ? error : new StoreUnavailable(`MONGODB_URL: ${why}`, { cause })
}

function reasonOf(error: unknown): string | undefined {
  if (error instanceof MongoServerSelectionError) return unreachable(error)
  if (!(error instanceof Error)) return undefined
  if ('syscall' in error && 'code' in error) {
    const { code, syscall } = error
    if (syscall === 'open') return `the file ${'path' in error ? error.path : ''} cannot be read (${code})`
    // The DNS look-up was for the hosts of mongodb+srv:.
    const host = 'hostname' in error ? String(error.hostname) : error.message.split(' ').at(-1)
    return `the name service has no hosts for ${host}: correct the name, or list the hosts with mongodb:// (${code})`
  }
  return error instanceof MongoAPIError ? error.message : undefined
}

/** Returns why each server is unusable. */
function unreachable({ reason }: MongoServerSelectionError): string {
  const reasons: string[] = []
  for (const [address, { error, type }] of reason?.servers ?? []) {
    if (error !== null) reasons.push(failureOf(address, error))
    else if (type === 'Unknown') reasons.push(connectionAdvice(address, 'ETIMEDOUT'))
  }
  if (reasons.length > 0) return reasons.join('; ')
  return 'no server can take writes: check the option replicaSet, and whether the replica set has a primary'
}

function failureOf(address: string, error: Error): string {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    if (!('code' in cause) || typeof cause.code !== 'string') continue
    // Without TLS, the hint about TLS would be wrong.
    if (cause.code !== 'ECONNRESET' || /TLS/.test(cause.message)) return connectionAdvice(address, cause.code)
  }
  if (/timed out/.test(error.message)) return connectionAdvice(address, 'ETIMEDOUT')
  if (/closed|ECONNRESET/.test(error.message)) {
    return `${address}: the server ends the connection: if it has TLS, add tls=true; otherwise check that it is MongoDB`
  }
  return `${address}: ${error.message}`
}
