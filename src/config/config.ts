/** Reads the settings from the environment into one typed, validated, frozen object. No other module reads them. */
import { hostname } from 'node:os'
import { OperatorError } from '../errors/operator-error.ts'
import { type Kind, MAX_NODE_NAME, nodeName } from './setting-kinds.ts'
import { type SettingName, table } from './setting-table.ts'

type Table = typeof table
type Value<Entry> = Entry extends { kind: Kind<infer T>; row: infer R }
  ? T | (R extends { default: string } ? never : undefined)
  : never

/**
 * Paths are absolute. `maxPushBytes` and `maxOwnerBytes` are Infinity without a limit; `eventStoreUrl` has the esdb://
 * form; `nodeName` is always set.
 */
export type Config = { readonly [Key in keyof Table]: Value<Table[Key]> } & { readonly nodeName: string }

/** Whether several servers may run with these settings: then both stores are external. */
export const isShared = ({ eventStoreUrl, mongodbUrl }: Pick<Config, 'eventStoreUrl' | 'mongodbUrl'>) =>
  eventStoreUrl !== undefined && mongodbUrl !== undefined

/** Thrown when the value of a setting prevents a start. */
export class ConfigError extends OperatorError {
  readonly setting: SettingName

  constructor(setting: SettingName, problem: string, options?: ErrorOptions) {
    super(`${setting} ${problem}`, options)
    this.setting = setting
  }
}

/** Settings that are useless without each other. */
const TOGETHER = [
  ['oidcIssuer', 'oidcClientId'],
  ['oidcIssuer', 'oidcClientSecret'],
  ['tlsCert', 'tlsKey'],
  ['grpcTlsCert', 'grpcTlsKey'],
] as const

type Values = Omit<Config, 'nodeName'> & { nodeName: string | undefined }

/** Type guard: all settings are present. The types of the values follow from their kinds. */
function isComplete(values: object): values is Values {
  return Object.keys(table).every((key) => Object.hasOwn(values, key))
}

/** Checks combinations of settings. @throws ConfigError for the first conflict */
function requireAgreement(values: Values): void {
  const { port, grpcPort, metricsPort, pageLimitDefault, pageLimitMax } = values
  if (port !== 0 && port === grpcPort) {
    throw new ConfigError('GRPC_PORT', `is "${grpcPort}", but must differ from PORT`)
  }
  if (metricsPort !== undefined && metricsPort !== 0 && [port, grpcPort].includes(metricsPort)) {
    throw new ConfigError('METRICS_PORT', `is "${metricsPort}", but must differ from PORT and GRPC_PORT`)
  }
  for (const [one, other] of TOGETHER) {
    for (const [unset, isSet] of [
      [one, other],
      [other, one],
    ] as const) {
      if (values[unset] !== undefined || values[isSet] === undefined) continue
      throw new ConfigError(
        table[unset].name,
        `is not set, but must be set together with ${table[isSet].name}`,
      )
    }
  }
  if (values.logSigningKey !== undefined && values.publicUrl === undefined) {
    throw new ConfigError('PUBLIC_URL', 'is not set, but LOG_SIGNING_KEY needs it: it names the log')
  }
  if (!values.localPasswords && values.oidcIssuer === undefined) {
    throw new ConfigError('LOCAL_PASSWORDS', 'is "off", but must be on without OIDC_ISSUER')
  }
  if (pageLimitMax < pageLimitDefault) {
    const allowed = `at least PAGE_LIMIT_DEFAULT, which is ${pageLimitDefault}`
    throw new ConfigError('PAGE_LIMIT_MAX', `is "${pageLimitMax}", but must be ${allowed}`)
  }
}

/** Returns the host name as a node name. An unusual host name must not prevent a start. */
function hostNodeName(): string {
  const name = hostname()
    .replace(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, MAX_NODE_NAME)
  return nodeName.read(name) ?? 'node'
}

/**
 * Reads every setting. An empty value counts as unset. A relative path starts at the working directory.
 * @throws ConfigError for the first setting whose value is not allowed
 */
export function loadConfig(env: NodeJS.ProcessEnv): Config {
  const values = Object.fromEntries(
    Object.entries(table).map(([key, { name, kind, row }]) => {
      const text = env[name] || row.default
      if (text === undefined) return [key, undefined]
      const problem = kind.problem?.(text)
      if (problem !== undefined) throw new ConfigError(name, problem)
      const value = kind.read(text)
      if (value !== undefined) return [key, value]
      const shown = kind.show === undefined ? text : kind.show(text)
      // JSON escapes control characters, so the message stays one line.
      throw new ConfigError(name, `is ${JSON.stringify(shown.slice(0, 200))}, but must be ${kind.allowed}`)
    }),
  )
  if (!isComplete(values)) throw new Error('a setting was not read')
  requireAgreement(values)
  return Object.freeze({
    ...values,
    nodeName: values.nodeName ?? hostNodeName(),
    maxPushBytes: values.maxPushBytes || Number.POSITIVE_INFINITY,
    maxObjectBytes: values.maxObjectBytes || Number.POSITIVE_INFINITY,
    maxOwnerBytes: values.maxOwnerBytes || Number.POSITIVE_INFINITY,
  })
}
