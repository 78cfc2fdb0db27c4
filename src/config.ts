/** Environment → one typed, validated, frozen object. Nothing else reads settings from the environment. */
import { isIP } from 'node:net'
import { resolve } from 'node:path'

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

export type LogLevel = (typeof LOG_LEVELS)[number]

export interface Config {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** 0: any free port. */
  readonly grpcPort: number
  /** Absolute path of a PEM file; undefined, as `grpcTlsKey` then is: gRPC without TLS. */
  readonly grpcTlsCert: string | undefined
  /** Absolute path of a PEM file. */
  readonly grpcTlsKey: string | undefined
  /** Of one message, either way. */
  readonly grpcMaxMessageBytes: number
  /** Absolute. */
  readonly dataDir: string
  /** Without a trailing slash; undefined: the address that the server listens on. */
  readonly publicUrl: string | undefined
  /** In the esdb:// form; undefined: the embedded event store. */
  readonly eventStoreUrl: string | undefined
  /** Undefined: the embedded read store. */
  readonly mongodbUrl: string | undefined
  readonly adminPassword: string | undefined
  readonly logLevel: LogLevel
  /** Absolute path of a private SSH key without a passphrase; undefined: what merges make is not signed. */
  readonly signingKey: string | undefined
  /** Absolute path of a file in git's allowed-signers format: whose signatures count besides the server's. */
  readonly allowedSigners: string | undefined
  readonly maxBodyBytes: number
  /** Infinity: no limit. */
  readonly maxPushBytes: number
  /** Of one file. */
  readonly attachmentMaxBytes: number
  /** Endings (`.zip`), media types and families of them (`image/*`), in lower case. */
  readonly attachmentAllowedTypes: readonly string[]
  readonly pageLimitDefault: number
  readonly pageLimitMax: number
  readonly projectionWaitMs: number
  /** Of one file of a pull request: counting its added and deleted lines ends there. */
  readonly maxDiffLines: number
  /** A list of a pull request's files ends there. */
  readonly maxDiffFiles: number
  /** No more of one changed line is held while lines are counted, however long it is. */
  readonly maxDiffLineCharacters: number
}

export interface Setting {
  readonly name: string
  /** As it would stand in the environment; empty: none. */
  readonly default: string
  readonly meaning: string
}

/** Every setting there is, in the order of the README's table. */
export const settings = [
  { name: 'HOST', default: '127.0.0.1', meaning: 'Address to listen on; `0.0.0.0` for every interface' },
  { name: 'PORT', default: '3000', meaning: 'Port of REST and git; `0` takes any free one' },
  { name: 'GRPC_PORT', default: '9090', meaning: 'Port of gRPC; `0` takes any free one' },
  {
    name: 'GRPC_TLS_CERT',
    default: '',
    meaning: 'Certificate of gRPC (a PEM file; its chain may follow it); gRPC is without TLS if unset',
  },
  {
    name: 'GRPC_TLS_KEY',
    default: '',
    meaning: 'Private key of `GRPC_TLS_CERT` (a PEM file), without a passphrase',
  },
  {
    name: 'GRPC_MAX_MESSAGE_BYTES',
    default: '1MiB',
    meaning: 'Largest gRPC message, either way; a call with a larger one ends with RESOURCE_EXHAUSTED',
  },
  { name: 'DATA_DIR', default: './data', meaning: 'Directory of the git repositories and embedded stores' },
  {
    name: 'PUBLIC_URL',
    default: '',
    meaning:
      'Where clients reach the server, as `https://git.example.org`; the address it listens on if unset',
  },
  {
    name: 'EVENTSTORE_URL',
    default: '',
    meaning: 'EventStoreDB or KurrentDB, as `esdb://host:2113?tls=false`; the embedded event store if unset',
  },
  {
    name: 'MONGODB_URL',
    default: '',
    meaning: 'MongoDB, as `mongodb://host:27017/mergelog`; the embedded read store if unset',
  },
  {
    name: 'ADMIN_PASSWORD',
    default: '',
    meaning: 'Password of `admin`, made on the first start; a random one, printed once, if unset',
  },
  {
    name: 'LOG_LEVEL',
    default: 'info',
    meaning: `One of ${LOG_LEVELS.map((level) => `\`${level}\``).join(', ')}`,
  },
  {
    name: 'SIGNING_KEY',
    default: '',
    meaning: 'Private SSH key (a file) that signs the commits that merges make; unsigned if unset',
  },
  {
    name: 'ALLOWED_SIGNERS',
    default: '',
    meaning:
      "File in git's allowed-signers format: whose signed commits may be pushed where signing is required",
  },
  {
    name: 'MAX_BODY_BYTES',
    default: '4MiB',
    meaning: 'Largest JSON body; a larger one is answered with 413',
  },
  { name: 'MAX_PUSH_BYTES', default: '4GiB', meaning: 'Largest git push; `0` for no limit' },
  {
    name: 'ATTACHMENT_MAX_BYTES',
    default: '2GiB',
    meaning: 'Largest file of a comment; a larger one is answered with 413',
  },
  {
    name: 'ATTACHMENT_ALLOWED_TYPES',
    default:
      '.avif,.cpuprofile,.csv,.dmp,.docx,.fodg,.fodp,.fods,.fodt,.gif,.gz,.jpeg,.jpg,.json,.jsonc,.log,.md,.mov,.mp4,.odf,.odg,.odp,.ods,.odt,.patch,.pdf,.png,.pptx,.svg,.tgz,.txt,.webm,.webp,.xls,.xlsx,.zip',
    meaning:
      'Which files comments take: endings (`.zip`), media types (`text/plain`) or families of them (`image/*`); `*/*` for all',
  },
  { name: 'PAGE_LIMIT_DEFAULT', default: '30', meaning: 'Rows of a list page when `limit` is not given' },
  { name: 'PAGE_LIMIT_MAX', default: '50', meaning: 'Most rows of a list page' },
  {
    name: 'PROJECTION_WAIT_MS',
    default: '5000',
    meaning: 'How long a command waits until queries show its change, in milliseconds',
  },
  {
    name: 'MAX_DIFF_LINES',
    default: '20000',
    meaning: "Counting a changed file's added and deleted lines ends there",
  },
  { name: 'MAX_DIFF_FILES', default: '3000', meaning: "A list of a pull request's changed files ends there" },
  {
    name: 'MAX_DIFF_LINE_CHARACTERS',
    default: '5000',
    meaning: 'Most of one changed line that is held while changed lines are counted',
  },
] as const satisfies readonly Setting[]

export type SettingName = (typeof settings)[number]['name']

/** A setting that the server cannot start with; the message is one line for whoever set it. */
export class ConfigError extends Error {
  readonly setting: SettingName

  constructor(setting: SettingName, problem: string) {
    super(`${setting} ${problem}`)
    this.name = 'ConfigError'
    this.setting = setting
  }
}

/** What a text may be, in words for the error, and its value, or undefined if it is not that. */
interface Kind<T> {
  readonly allowed: string
  readonly parse: (text: string) => T | undefined
  /** How a refused text is printed; whole if left out. */
  readonly show?: (text: string) => string
}

/** A whole number from `least` to `most`, in decimal digits. */
function wholeNumber(least: number, most: number): Kind<number> {
  return {
    allowed: `a whole number from ${least} to ${most}`,
    parse: (text) => {
      const value = /^\d{1,15}$/.test(text) ? Number(text) : -1
      return value >= least && value <= most ? value : undefined
    },
  }
}

const UNITS = new Map([
  ['', 1],
  ['KiB', 2 ** 10],
  ['MiB', 2 ** 20],
  ['GiB', 2 ** 30],
  ['TiB', 2 ** 40],
])

/** A number of bytes, as `4194304` or `4MiB`. */
function byteSize(least: number, most: number, range: string): Kind<number> {
  return {
    allowed: `a number of bytes ${range}, as 1048576, 1024KiB or 1MiB`,
    parse: (text) => {
      const [, digits, unit = ''] = /^(\d{1,15}) ?([KMGT]iB)?$/.exec(text) ?? []
      const value = Number(digits) * (UNITS.get(unit) ?? Number.NaN)
      return value >= least && value <= most ? value : undefined
    },
  }
}

const FILE_TYPE = /^(?:\.[^\s,/\\]+|\*\/\*|[a-z][a-z0-9.+-]*\/(?:\*|[a-z0-9.+-]+))$/

/** Ends of file names and media types, separated by commas. */
const fileTypes: Kind<readonly string[]> = {
  allowed: 'a list of .endings, media/types or families/* with commas between them',
  parse: (text) => {
    const entries = text.split(',').map((entry) => entry.trim().toLowerCase())
    return entries.every((entry) => FILE_TYPE.test(entry)) ? Object.freeze(entries) : undefined
  },
}

const port = wholeNumber(0, 65535)

const host: Kind<string> = {
  allowed: 'an IP address or a host name',
  parse: (text) =>
    isIP(text) !== 0 || (text.length <= 253 && /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/i.test(text))
      ? text
      : undefined,
}

const directory: Kind<string> = {
  allowed: 'a directory',
  parse: (text) => (text.includes('\0') ? undefined : resolve(text)),
}

const file: Kind<string> = {
  allowed: 'the path of a file',
  parse: (text) => (text.includes('\0') ? undefined : resolve(text)),
}

const logLevel: Kind<LogLevel> = {
  allowed: `one of ${LOG_LEVELS.join(', ')}`,
  parse: (text) => LOG_LEVELS.find((level) => level === text),
}

const PASSWORD_MIN = 8

const password: Kind<string> = {
  allowed: `at least ${PASSWORD_MIN} characters long`,
  parse: (text) => (Array.from(text).length >= PASSWORD_MIN ? text : undefined),
  show: (text) => `(${Array.from(text).length} characters)`,
}

/** A URL fit to be printed: credentials stand before the last @, and any query may hold more of them. */
function withoutSecrets(url: string): string {
  const at = url.lastIndexOf('@')
  const scheme = /^[a-z0-9+.-]*:\/\//i.exec(url)?.[0] ?? ''
  const shown = at === -1 ? url : `${scheme}***${url.slice(at)}`
  return shown.replace(/\?.*$/s, '?***')
}

const publicUrl: Kind<string> = {
  allowed: 'an http:// or https:// URL without credentials, query, fragment or trailing slash',
  parse: (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined
    if (url === undefined || !/^https?:\/\/[^\s/@?#\\][^\s@?#\\]*$/i.test(text)) return undefined
    return text.endsWith('/') ? undefined : text
  },
  show: withoutSecrets,
}

const PORT = String.raw`(?::\d{1,5})?`
const CREDENTIALS = String.raw`(?:[^\s@/?#]+@)?`
// @eventstore/db-client knows no IPv6 addresses.
const NODE = String.raw`[\w.-]+${PORT}`
const EVENTSTORE = new RegExp(
  String.raw`^(?:esdb|kurrentdb)(?:\+discover)?://${CREDENTIALS}${NODE}(?:,${NODE})*/?(?:\?\S*)?$`,
  'i',
)
const MEMBER = String.raw`(?:[\w.%-]+|\[[\da-f:.]+\])${PORT}`
const MONGODB = new RegExp(
  String.raw`^mongodb(?:\+srv)?://${CREDENTIALS}${MEMBER}(?:,${MEMBER})*(?:/[^\s/?]*)?(?:\?\S*)?$`,
  'i',
)

const eventStoreUrl: Kind<string> = {
  allowed:
    'a connection string that begins with esdb://, esdb+discover://, kurrentdb:// or kurrentdb+discover://',
  // The two schemes are one protocol, of which @eventstore/db-client knows the older name, in lower case.
  parse: (text) =>
    EVENTSTORE.test(text)
      ? text.replace(
          /^(?:esdb|kurrentdb)(\+discover)?:/i,
          (_, discover = '') => `esdb${discover.toLowerCase()}:`,
        )
      : undefined,
  show: withoutSecrets,
}

const mongodbUrl: Kind<string> = {
  allowed: 'a connection string that begins with mongodb:// or mongodb+srv://',
  parse: (text) => (MONGODB.test(text) ? text : undefined),
  show: withoutSecrets,
}

/**
 * Reads every setting; an empty value counts as unset. Throws `ConfigError` for the first that is
 * unusable. A relative DATA_DIR starts at the working directory.
 */
export function loadConfig(env: NodeJS.ProcessEnv): Config {
  const optional = <T>(name: SettingName, kind: Kind<T>): T | undefined => {
    const text = env[name] || settings.find((setting) => setting.name === name)?.default
    if (!text) return undefined
    const value = kind.parse(text)
    if (value !== undefined) return value
    const shown = kind.show ? kind.show(text) : text
    // JSON keeps control characters from making more than one line of it.
    throw new ConfigError(name, `is ${JSON.stringify(shown.slice(0, 200))}, but must be ${kind.allowed}`)
  }
  const required = <T>(name: SettingName, kind: Kind<T>): T => {
    const value = optional(name, kind)
    if (value === undefined) throw new ConfigError(name, `is not set, but must be ${kind.allowed}`)
    return value
  }
  const config: Config = {
    host: required('HOST', host),
    port: required('PORT', port),
    grpcPort: required('GRPC_PORT', port),
    grpcTlsCert: optional('GRPC_TLS_CERT', file),
    grpcTlsKey: optional('GRPC_TLS_KEY', file),
    grpcMaxMessageBytes: required(
      'GRPC_MAX_MESSAGE_BYTES',
      byteSize(2 ** 15, 2 ** 26, 'from 32KiB to 64MiB'),
    ),
    dataDir: required('DATA_DIR', directory),
    publicUrl: optional('PUBLIC_URL', publicUrl),
    eventStoreUrl: optional('EVENTSTORE_URL', eventStoreUrl),
    mongodbUrl: optional('MONGODB_URL', mongodbUrl),
    adminPassword: optional('ADMIN_PASSWORD', password),
    logLevel: required('LOG_LEVEL', logLevel),
    signingKey: optional('SIGNING_KEY', file),
    allowedSigners: optional('ALLOWED_SIGNERS', file),
    maxBodyBytes: required('MAX_BODY_BYTES', byteSize(2 ** 10, 2 ** 30, 'from 1KiB to 1GiB')),
    maxPushBytes:
      required('MAX_PUSH_BYTES', byteSize(0, Number.MAX_SAFE_INTEGER, '(0 for no limit)')) ||
      Number.POSITIVE_INFINITY,
    attachmentMaxBytes: required('ATTACHMENT_MAX_BYTES', byteSize(1, Number.MAX_SAFE_INTEGER, 'from 1')),
    attachmentAllowedTypes: required('ATTACHMENT_ALLOWED_TYPES', fileTypes),
    pageLimitDefault: required('PAGE_LIMIT_DEFAULT', wholeNumber(1, 1000)),
    pageLimitMax: required('PAGE_LIMIT_MAX', wholeNumber(1, 1000)),
    projectionWaitMs: required('PROJECTION_WAIT_MS', wholeNumber(0, 600_000)),
    maxDiffLines: required('MAX_DIFF_LINES', wholeNumber(1, 10_000_000)),
    maxDiffFiles: required('MAX_DIFF_FILES', wholeNumber(1, 100_000)),
    maxDiffLineCharacters: required('MAX_DIFF_LINE_CHARACTERS', wholeNumber(1, 1_000_000)),
  }
  if (config.port !== 0 && config.port === config.grpcPort) {
    throw new ConfigError('GRPC_PORT', `is "${config.grpcPort}", but must differ from PORT`)
  }
  if (config.grpcTlsKey === undefined && config.grpcTlsCert !== undefined) {
    throw new ConfigError('GRPC_TLS_KEY', 'is not set, but must be when GRPC_TLS_CERT is')
  }
  if (config.grpcTlsCert === undefined && config.grpcTlsKey !== undefined) {
    throw new ConfigError('GRPC_TLS_CERT', 'is not set, but must be when GRPC_TLS_KEY is')
  }
  if (config.pageLimitMax < config.pageLimitDefault) {
    throw new ConfigError(
      'PAGE_LIMIT_MAX',
      `is "${config.pageLimitMax}", but must be at least PAGE_LIMIT_DEFAULT, which is ${config.pageLimitDefault}`,
    )
  }
  return Object.freeze(config)
}
