/**
 * A client of the HTTP gateway of a Cosmos chain node. We don't trust the gateway: its answers are limited in
 * time and size, and checked against a schema.
 */
import { type Static, Type } from 'typebox'
import { Nullable } from '../../api/nullable.ts'
import { releasableSignal } from '../../concurrency/releasable-signal.ts'
import { OperatorError } from '../../errors/operator-error.ts'
import type { ModuleVersion, UpgradePlan } from '../../events/catalog/upgrade.ts'
import { parseInt64, parseUint64 } from '../../events/int64.ts'
import { type Check, checkOf } from '../../storage/checked-json.ts'
import type { Observed } from './follow-changes.ts'

/** The gateway gave no valid answer. */
export class GatewayError extends OperatorError {
  /** Pause that the gateway requested, in milliseconds. */
  readonly retryAfterMs: number | undefined
  /** The gateway doesn't have the method. */
  readonly isUnknownMethod: boolean

  constructor(message: string, options: GatewayErrorOptions = {}) {
    super(message, options)
    this.retryAfterMs = options.retryAfterMs
    this.isUnknownMethod = options.isUnknownMethod ?? false
  }
}

interface GatewayErrorOptions extends ErrorOptions {
  retryAfterMs?: number | undefined
  isUnknownMethod?: boolean
}

export type Gateway = ReturnType<typeof openGateway>

export interface GatewayOptions {
  /** Timeout of a complete answer. Default: 10 s. */
  timeoutMs?: number
  /** Maximum size of an answer after decompression. Default: 1 MiB. */
  maxBytes?: number
}

const Text = Type.String({ maxLength: 1_000_000 })
/** Decimal digits. Some gateways send small numbers as JSON numbers. */
const Whole = Type.Union([Type.String({ maxLength: 40 }), Type.Integer()])

const CurrentPlan = Type.Object({
  plan: Nullable(Type.Object({ name: Text, height: Whole, info: Type.Optional(Text) })),
})
const isCurrentPlan = checkOf(CurrentPlan)
const isAppliedPlan = checkOf(Type.Object({ height: Whole }))
const isModuleVersions = checkOf(
  Type.Object({
    module_versions: Type.Array(Type.Object({ name: Text, version: Whole }), { maxItems: 10_000 }),
  }),
)
const isAuthority = checkOf(Type.Object({ address: Text }))

/** The block height of an answer. Sent with the next queries, it makes them answer for the same block. */
const HEIGHT_HEADER = 'x-cosmos-block-height'

/** Statuses of a chain that is too old for a method (`module_versions` came with SDK 0.43, `authority` with 0.46). */
const UNKNOWN_METHOD = new Set([404, 501])

/** `url`: http or https, without credentials. The paths of the methods are added to it. */
export function openGateway(url: URL, { timeoutMs = 10_000, maxBytes = 2 ** 20 }: GatewayOptions = {}) {
  const base = `${url.origin}${url.pathname.replace(/\/+$/, '')}`
  /** The height of the last round. A gateway with several nodes must not return to an earlier block. */
  let latest = 0n

  async function get<T>(
    check: Check<T>,
    path: string,
    signal: AbortSignal,
    height?: string,
  ): Promise<{ answer: T; height: string | undefined }> {
    const late = releasableSignal(signal)
    const timer = setTimeout(
      () => late.abort(new GatewayError(`${path}: no complete answer in ${timeoutMs / 1000} s`)),
      timeoutMs,
    )
    try {
      const response = await fetch(`${base}/cosmos/upgrade/v1beta1/${path}`, {
        headers: { accept: 'application/json', ...(height !== undefined && { [HEIGHT_HEADER]: height }) },
        // The operator chose this host, not the host of a redirect.
        redirect: 'error',
        signal: late.signal,
      })
      if (response.status !== 200) {
        await response.body?.cancel()
        throw new GatewayError(`${path}: answered with ${response.status}`, {
          retryAfterMs: retryAfter(response.headers.get('retry-after')),
          isUnknownMethod: UNKNOWN_METHOD.has(response.status),
        })
      }
      const answer = parseJson(path, await bodyOf(path, response, maxBytes))
      if (!check(answer)) throw new GatewayError(`${path}: ${check.problem(answer)}`)
      return { answer, height: heightOf(response.headers) }
    } catch (error) {
      signal.throwIfAborted()
      late.signal.throwIfAborted()
      if (error instanceof GatewayError) throw error
      throw new GatewayError(`${path}: ${causeOf(error)}`, { cause: error })
    } finally {
      clearTimeout(timer)
      late.release()
    }
  }

  /** Like `get`, but resolves to undefined when the chain does not have the method. */
  async function getIfKnown<T>(
    check: Check<T>,
    path: string,
    signal: AbortSignal,
    height: string | undefined,
  ): Promise<T | undefined> {
    try {
      return (await get(check, path, signal, height)).answer
    } catch (error) {
      if (error instanceof GatewayError && error.isUnknownMethod) return undefined
      throw error
    }
  }

  async function appliedHeight(name: string, signal: AbortSignal, height: string | undefined) {
    // These names can't be sent in a path, where they mean directories.
    if (name === '' || name === '.' || name === '..') return '0'
    const path = `applied_plan/${encodeURIComponent(wellFormed(name))}`
    const { answer } = await get(isAppliedPlan, path, signal, height)
    return int64('applied_plan', 'height', answer.height)
  }

  return {
    /** Without the query string, so that it can be printed. */
    url: base,
    /**
     * Sends each query once. `scheduled` is the name of the plan in the log; when the chain no longer has it, also
     * queries the height at which it was applied.
     * @throws GatewayError when an answer is missing, late, too large or invalid
     * @throws the signal's reason when it is aborted
     */
    async observe(scheduled: string | undefined, signal: AbortSignal): Promise<Observed> {
      const current = await get(isCurrentPlan, 'current_plan', signal)
      const { height } = current
      if (height !== undefined && BigInt(height) < latest) {
        throw new GatewayError(
          `current_plan: the answer is for block ${height}, an earlier one was for block ${latest}`,
        )
      }
      const plan = planOf(current.answer.plan)
      const observed: Observed = { plan }
      if (scheduled !== undefined && scheduled !== plan?.name) {
        observed.applied = { name: scheduled, height: await appliedHeight(scheduled, signal, height) }
      }
      const modules = await getIfKnown(isModuleVersions, 'module_versions', signal, height)
      if (modules !== undefined) observed.moduleVersions = modules.module_versions.map(moduleVersionOf)
      const authority = await getIfKnown(isAuthority, 'authority', signal, height)
      if (authority !== undefined) observed.authority = wellFormed(authority.address)
      if (height !== undefined) latest = BigInt(height)
      return observed
    },
  }
}

function planOf(plan: Static<typeof CurrentPlan>['plan']): UpgradePlan | null {
  if (plan === null) return null
  const { name, info = '' } = plan
  const height = int64('current_plan', 'plan.height', plan.height)
  return { name: wellFormed(name), height, info: wellFormed(info) }
}

function moduleVersionOf(module: { name: string; version: string | number }): ModuleVersion {
  const version = parseUint64(digitsOf(module.version))
  if (version === undefined) throw new GatewayError('module_versions: a version is not a uint64')
  return { name: wellFormed(module.name), version }
}

function int64(path: string, field: string, value: string | number): string {
  const parsed = parseInt64(digitsOf(value))
  if (parsed === undefined) throw new GatewayError(`${path}: ${field} is not an int64`)
  return parsed
}

/** Returns '' for a JSON number beyond 2^53, which has lost digits. */
const digitsOf = (value: string | number) =>
  typeof value === 'string' ? value : Number.isSafeInteger(value) ? `${value}` : ''

/** Replaces lone surrogates: JSON can contain them, a path and UTF-8 cannot. */
const wellFormed = (text: string) => text.replaceAll(/\p{Surrogate}/gu, '\ufffd')

/** Reads at most `maxBytes`. Closes the connection when the answer is larger. */
async function bodyOf(path: string, response: Response, maxBytes: number): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let text = ''
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength
    if (bytes > maxBytes) throw new GatewayError(`${path}: the answer is larger than ${maxBytes} bytes`)
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

function parseJson(path: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new GatewayError(`${path}: the answer is not JSON`)
  }
}

function heightOf(headers: Headers): string | undefined {
  const text = headers.get(`grpc-metadata-${HEIGHT_HEADER}`) ?? headers.get(HEIGHT_HEADER)
  return text === null ? undefined : parseUint64(text)
}

/** A `Retry-After` header (seconds or a date) in milliseconds. */
function retryAfter(header: string | null): number | undefined {
  if (header === null) return undefined
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}

/** The reason of a failed fetch. undici's message is always "fetch failed"; the reason is in `cause`. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  if (cause instanceof AggregateError) return causeOf(cause.errors[0])
  return cause instanceof Error ? causeOf(cause) : error.message
}
