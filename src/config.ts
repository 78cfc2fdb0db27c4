/** Environment → one typed, validated, frozen object. Nothing else reads settings from the environment. */
import { isIP } from 'node:net'
import { resolve } from 'node:path'

/** What a setting may be. */
interface Kind<T> {
  /** In words, for the error. */
  allowed: string
  /** Text → value; undefined for text that is not allowed. */
  read: (text: string) => T | undefined
  /** How refused text is printed. Left out: as it is. */
  show?: (text: string) => string
}

const matching = (allowed: string, pattern: RegExp): Kind<string> => ({
  allowed,
  read: (text) => (pattern.test(text) ? text : undefined),
})

const between = (value: number, least: number, most: number) =>
  value >= least && value <= most ? value : undefined

const wholeNumber = (least: number, most: number): Kind<number> => ({
  allowed: `a whole number from ${least} to ${most}`,
  read: (text) => (/^\d{1,15}$/.test(text) ? between(Number(text), least, most) : undefined),
})

const UNITS = ['', 'KiB', 'MiB', 'GiB', 'TiB']

/** `4194304` or `4MiB`. */
const bytes = (range: string, least: number, most = Number.MAX_SAFE_INTEGER): Kind<number> => ({
  allowed: `a number of bytes ${range}, as 1048576, 1024KiB or 1MiB`,
  read(text) {
    const [, digits, unit = ''] = /^(\d{1,15}) ?([KMGT]iB)?$/.exec(text) ?? []
    return between(Number(digits) * 1024 ** UNITS.indexOf(unit), least, most)
  },
})

const path = (allowed: string): Kind<string> => ({
  allowed,
  read: (text) => (text.includes('\0') ? undefined : resolve(text)),
})

const host: Kind<string> = {
  allowed: 'an IP address or a host name',
  read: (text) =>
    isIP(text) !== 0 || /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/i.test(text) ? text : undefined,
}
const port = wholeNumber(0, 65535)
const file = path('the path of a file')

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
const logLevel: Kind<(typeof LOG_LEVELS)[number]> = {
  allowed: `one of ${LOG_LEVELS.join(', ')}`,
  read: (text) => LOG_LEVELS.find((level) => level === text),
}

const password: Kind<string> = {
  ...matching('at least 8 characters long', /^.{8,}$/su),
  show: (text) => `(${Array.from(text).length} characters)`,
}

const FILE_TYPE = /^(?:\.[^\s,/\\]+|\*\/\*|[a-z][a-z0-9.+-]*\/(?:\*|[a-z0-9.+-]+))$/

/** Endings (`.zip`), media types and families of them (`image/*`), in lower case. */
const fileTypes: Kind<readonly string[]> = {
  allowed: 'a list of .endings, media/types or families/* with commas between them',
  read(text) {
    const entries = text.split(',').map((entry) => entry.trim().toLowerCase())
    return entries.every((entry) => FILE_TYPE.test(entry)) ? Object.freeze(entries) : undefined
  },
}

/** A URL that may be printed: credentials are before the last @, and a query may hold more of them. */
function withoutSecrets(text: string): string {
  const at = text.lastIndexOf('@')
  const scheme = /^[a-z0-9+.-]*:\/\//i.exec(text)?.[0] ?? ''
  const shown = at === -1 ? text : `${scheme}***${text.slice(at)}`
  return shown.replace(/\?.*$/s, '?***')
}

const webUrl: Kind<string> = {
  allowed: 'an http:// or https:// URL without credentials, query, fragment or trailing slash',
  read: (text) =>
    URL.canParse(text) && /^https?:\/\/[^\s/@?#\\][^\s@?#\\]*(?<!\/)$/i.test(text) ? text : undefined,
  show: withoutSecrets,
}

const PORT = String.raw`(?::\d{1,5})?`
const CREDENTIALS = String.raw`(?:[^\s@/?#]+@)?`
// @eventstore/db-client does not know IPv6 addresses.
const NODE = String.raw`[\w.-]+${PORT}`
const EVENTSTORE = String.raw`://${CREDENTIALS}${NODE}(?:,${NODE})*/?(?:\?\S*)?`
const MEMBER = String.raw`(?:[\w.%-]+|\[[\da-f:.]+\])${PORT}`
const MONGODB = String.raw`://${CREDENTIALS}${MEMBER}(?:,${MEMBER})*(?:/[^\s/?]*)?(?:\?\S*)?`

const eventStoreUrl: Kind<string> = {
  allowed:
    'a connection string that begins with esdb://, esdb+discover://, kurrentdb:// or kurrentdb+discover://',
  // Both schemes name the same protocol. @eventstore/db-client knows only the older name, in lower case.
  read(text) {
    const [, cluster = '', rest] =
      new RegExp(`^(?:esdb|kurrentdb)(\\+discover)?(${EVENTSTORE})$`, 'i').exec(text) ?? []
    return rest === undefined ? undefined : `esdb${cluster.toLowerCase()}${rest}`
  },
  show: withoutSecrets,
}

const mongodbUrl: Kind<string> = {
  ...matching(
    'a connection string that begins with mongodb:// or mongodb+srv://',
    new RegExp(`^mongodb(?:\\+srv)?${MONGODB}$`, 'i'),
  ),
  show: withoutSecrets,
}

interface Row {
  /** As text in the environment. Left out: the setting is undefined when it is not set. */
  default?: string
  /** For the README. */
  meaning: string
}

const setting = <const Name extends string, T, R extends Row>(
  name: Name,
  kind: Kind<T>,
  row: R,
): { name: Name; kind: Kind<T>; row: R & Row } => ({ name, kind, row })

/** Every setting under its name in `Config`, in the order of the README's table. */
const table = {
  host: setting('HOST', host, {
    default: '127.0.0.1',
    meaning: 'Address to listen on; `0.0.0.0` means every interface',
  }),
  port: setting('PORT', port, { default: '3000', meaning: 'Port of REST and git; `0` takes any free one' }),
  grpcPort: setting('GRPC_PORT', port, { default: '9090', meaning: 'Port of gRPC; `0` takes any free one' }),
  grpcTlsCert: setting('GRPC_TLS_CERT', file, {
    meaning: 'Certificate for gRPC (a PEM file; its chain may follow it); without it gRPC has no TLS',
  }),
  grpcTlsKey: setting('GRPC_TLS_KEY', file, {
    meaning: 'Private key of `GRPC_TLS_CERT` (a PEM file), without a passphrase',
  }),
  grpcMaxMessageBytes: setting('GRPC_MAX_MESSAGE_BYTES', bytes('from 32KiB to 64MiB', 2 ** 15, 2 ** 26), {
    default: '1MiB',
    meaning: 'Largest gRPC message, in and out; a call with a larger one ends with RESOURCE_EXHAUSTED',
  }),
  dataDir: setting('DATA_DIR', path('a directory'), {
    default: './data',
    meaning: 'Directory of the git repositories and embedded stores',
  }),
  publicUrl: setting('PUBLIC_URL', webUrl, {
    meaning:
      'Where clients reach the server, as `https://git.example.org`; the address it listens on if unset',
  }),
  eventStoreUrl: setting('EVENTSTORE_URL', eventStoreUrl, {
    meaning: 'EventStoreDB or KurrentDB, as `esdb://host:2113?tls=false`; the embedded event store if unset',
  }),
  mongodbUrl: setting('MONGODB_URL', mongodbUrl, {
    meaning: 'MongoDB, as `mongodb://host:27017/mergelog`; the embedded read store if unset',
  }),
  adminPassword: setting('ADMIN_PASSWORD', password, {
    meaning: 'Password of `admin`, who is made on the first start; if unset, a random one is printed once',
  }),
  logLevel: setting('LOG_LEVEL', logLevel, {
    default: 'info',
    meaning: `One of \`${LOG_LEVELS.join('`, `')}\``,
  }),
  signingKey: setting('SIGNING_KEY', file, {
    meaning: 'Private SSH key (a file) that signs the commits of merges; they are unsigned if unset',
  }),
  allowedSigners: setting('ALLOWED_SIGNERS', file, {
    meaning:
      "File in git's allowed-signers format: it says whose signatures count on branches that require signed commits",
  }),
  maxBodyBytes: setting('MAX_BODY_BYTES', bytes('from 1KiB to 1GiB', 2 ** 10, 2 ** 30), {
    default: '4MiB',
    meaning: 'Largest JSON body; a larger one is answered with 413',
  }),
  maxPushBytes: setting('MAX_PUSH_BYTES', bytes('(0 for no limit)', 0), {
    default: '4GiB',
    meaning: 'Largest git push; `0` means no limit',
  }),
  attachmentMaxBytes: setting('ATTACHMENT_MAX_BYTES', bytes('from 1', 1), {
    default: '2GiB',
    meaning: 'Largest file of a comment; a larger one is answered with 413',
  }),
  attachmentAllowedTypes: setting('ATTACHMENT_ALLOWED_TYPES', fileTypes, {
    default:
      '.avif,.cpuprofile,.csv,.dmp,.docx,.fodg,.fodp,.fods,.fodt,.gif,.gz,.jpeg,.jpg,.json,.jsonc,.log,.md,.mov,.mp4,.odf,.odg,.odp,.ods,.odt,.patch,.pdf,.png,.pptx,.svg,.tgz,.txt,.webm,.webp,.xls,.xlsx,.zip',
    meaning:
      'Files that comments may have: endings (`.zip`), media types (`text/plain`) or families of them (`image/*`); `*/*` means all',
  }),
  pageLimitDefault: setting('PAGE_LIMIT_DEFAULT', wholeNumber(1, 1000), {
    default: '30',
    meaning: 'Rows of a list page when `limit` is not given',
  }),
  pageLimitMax: setting('PAGE_LIMIT_MAX', wholeNumber(1, 1000), {
    default: '50',
    meaning: 'Maximum rows of a list page',
  }),
  projectionWaitMs: setting('PROJECTION_WAIT_MS', wholeNumber(0, 600_000), {
    default: '5000',
    meaning: 'How long a command waits for queries to show its change, in milliseconds',
  }),
  maxDiffLines: setting('MAX_DIFF_LINES', wholeNumber(1, 10_000_000), {
    default: '20000',
    meaning: 'Maximum added and deleted lines that are counted in one changed file',
  }),
  maxDiffFiles: setting('MAX_DIFF_FILES', wholeNumber(1, 100_000), {
    default: '3000',
    meaning: "Maximum files in the list of a pull request's changed files",
  }),
  maxDiffLineCharacters: setting('MAX_DIFF_LINE_CHARACTERS', wholeNumber(1, 1_000_000), {
    default: '5000',
    meaning: 'Maximum characters of one changed line that are held while lines are counted',
  }),
}

type Table = typeof table
type Value<Entry> = Entry extends { kind: Kind<infer T>; row: infer R }
  ? T | (R extends { default: string } ? never : undefined)
  : never

/** Paths are absolute. `maxPushBytes` is Infinity when there is no limit; `eventStoreUrl` has the esdb:// form. */
export type Config = { readonly [Key in keyof Table]: Value<Table[Key]> }

export type SettingName = Table[keyof Table]['name']

/** For the README and for --help. */
export const settings = Object.values(table).map(({ name, row: { default: standard = '', meaning } }) => ({
  name,
  default: standard,
  meaning,
}))

/** A setting that the server cannot start with; the message is one line for whoever set it. */
export class ConfigError extends Error {
  readonly setting: SettingName

  constructor(setting: SettingName, problem: string) {
    super(`${setting} ${problem}`)
    this.name = 'ConfigError'
    this.setting = setting
  }
}

/** Each value has the type of its kind; what the compiler cannot see is that none is left out. */
function isWhole(values: object): values is Config {
  return Object.keys(table).every((key) => Object.hasOwn(values, key))
}

/**
 * Reads every setting; an empty value counts as unset. Throws `ConfigError` for the first that is
 * unusable. A relative DATA_DIR starts at the working directory.
 */
export function loadConfig(env: NodeJS.ProcessEnv): Config {
  const values = Object.fromEntries(
    Object.entries(table).map(([key, { name, kind, row }]) => {
      const text = env[name] || row.default
      return [key, text === undefined ? undefined : valueIn(name, kind, text)]
    }),
  )
  if (!isWhole(values)) throw new Error('a setting was not read')
  const { port, grpcPort, grpcTlsCert, grpcTlsKey, pageLimitDefault, pageLimitMax } = values
  if (port !== 0 && port === grpcPort) {
    throw new ConfigError('GRPC_PORT', `is "${grpcPort}", but must differ from PORT`)
  }
  if (grpcTlsCert !== undefined && grpcTlsKey === undefined) {
    throw new ConfigError('GRPC_TLS_KEY', 'is not set, but must be when GRPC_TLS_CERT is')
  }
  if (grpcTlsKey !== undefined && grpcTlsCert === undefined) {
    throw new ConfigError('GRPC_TLS_CERT', 'is not set, but must be when GRPC_TLS_KEY is')
  }
  if (pageLimitMax < pageLimitDefault) {
    const allowed = `at least PAGE_LIMIT_DEFAULT, which is ${pageLimitDefault}`
    throw new ConfigError('PAGE_LIMIT_MAX', `is "${pageLimitMax}", but must be ${allowed}`)
  }
  return Object.freeze({ ...values, maxPushBytes: values.maxPushBytes || Number.POSITIVE_INFINITY })
}

function valueIn(name: SettingName, { allowed, read, show }: Kind<unknown>, text: string): unknown {
  const value = read(text)
  if (value !== undefined) return value
  const shown = show ? show(text) : text
  // JSON keeps control characters from making more than one line of it.
  throw new ConfigError(name, `is ${JSON.stringify(shown.slice(0, 200))}, but must be ${allowed}`)
}
