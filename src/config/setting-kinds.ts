/** Kinds of settings: how to parse, check, and print their values. */
import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { addressesIn } from './address-ranges.ts'
import { EventStoreDbUrlProblem, parseEventStoreDbUrl } from './eventstoredb-url.ts'
import { mongodbUrlProblem } from './mongodb-url.ts'
import { type AllowedHosts, allowedHosts } from './outside-addresses.ts'

export interface Kind<T> {
  /** Describes the allowed values, for the error. */
  allowed: string
  /** Parses a text; undefined when it is not allowed. */
  read: (text: string) => T | undefined
  /** Describes the problem of an invalid text when `allowed` is not enough. Contains no secrets. */
  problem?: (text: string) => string | undefined
  /** Hides secrets in an invalid text before it is printed. Default: unchanged. */
  show?: (text: string) => string
}

const matching = (allowed: string, pattern: RegExp): Kind<string> => ({
  allowed,
  read: (text) => (pattern.test(text) ? text : undefined),
})

const between = (value: number, min: number, max: number) =>
  value >= min && value <= max ? value : undefined

export const wholeNumber = (min: number, max: number): Kind<number> => ({
  allowed: `a whole number from ${min} to ${max}`,
  read: (text) => (/^\d{1,15}$/.test(text) ? between(Number(text), min, max) : undefined),
})

const UNITS = ['', 'KiB', 'MiB', 'GiB', 'TiB']

/** A number of bytes, such as `4194304` or `4MiB`. `range` describes its range. */
export const bytes = (range: string, min: number, max = Number.MAX_SAFE_INTEGER): Kind<number> => ({
  allowed: `a number of bytes ${range}, as 1048576, 1024KiB or 1MiB`,
  read(text) {
    const [, digits, unit = ''] = /^(\d{1,15}) ?([KMGT]iB)?$/.exec(text) ?? []
    return between(Number(digits) * 1024 ** UNITS.indexOf(unit), min, max)
  },
})

export const path = (allowed: string): Kind<string> => ({
  allowed,
  read: (text) => (text.includes('\0') ? undefined : resolve(text)),
})

export const host: Kind<string> = {
  allowed: 'an IP address or a host name',
  read: (text) =>
    isIP(text) !== 0 || /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/i.test(text) ? text : undefined,
}
export const port = wholeNumber(0, 65535)
export const file = path('the path of a file')

/** Maximum length of a host name on Linux. */
export const MAX_NODE_NAME = 64

export const nodeName: Kind<string> = matching(
  `1 to ${MAX_NODE_NAME} letters, digits, dots, hyphens and underscores, with a letter or a digit first`,
  new RegExp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,${MAX_NODE_NAME - 1}}$`),
)

export const onOff: Kind<boolean> = {
  allowed: 'on or off',
  read: (text) => (text === 'on' ? true : text === 'off' ? false : undefined),
}

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export const logLevel: Kind<(typeof LOG_LEVELS)[number]> = {
  allowed: `one of ${LOG_LEVELS.join(', ')}`,
  read: (text) => LOG_LEVELS.find((level) => level === text),
}

const LOG_FORMATS = ['json', 'pretty'] as const
export const logFormat: Kind<(typeof LOG_FORMATS)[number]> = {
  allowed: `one of ${LOG_FORMATS.join(', ')}`,
  read: (text) => LOG_FORMATS.find((format) => format === text),
}

export const password: Kind<string> = {
  ...matching('at least 8 characters long', /^.{8,}$/su),
  show: (text) => `(${Array.from(text).length} characters)`,
}

/** A secret that clients send in a header. */
export const bearerToken: Kind<string> = {
  ...matching('16 to 512 letters, digits and -._~+/=', /^[A-Za-z0-9._~+/=-]{16,512}$/),
  show: (text) => `(${Array.from(text).length} characters)`,
}

const FILE_TYPE = /^(?:\.[^\s,/\\]+|\*\/\*|[a-z][a-z0-9.+-]*\/(?:\*|[a-z0-9.+-]+))$/

/** File endings (`.zip`), media types and families of media types (`image/*`), in lower case. */
export const fileTypes: Kind<readonly string[]> = {
  allowed: 'a list of .endings, media/types or families/* with commas between them',
  read(text) {
    const entries = text.split(',').map((entry) => entry.trim().toLowerCase())
    return entries.every((entry) => FILE_TYPE.test(entry)) ? Object.freeze(entries) : undefined
  },
}

/** Addresses and ranges of them, for `addressesIn`. */
export const addresses: Kind<readonly string[]> = {
  allowed:
    'a list of IP addresses, ranges as 10.0.0.0/8, or loopback, linklocal or uniquelocal, with commas between them',
  read(text) {
    const entries = text.split(',').map((entry) => entry.trim())
    return addressesIn(entries) === undefined ? undefined : Object.freeze(entries)
  },
}

/** Hosts that are allowed even in the server's own network, for `allowedHosts`. */
export const hosts: Kind<AllowedHosts> = {
  allowed:
    'a list of host names (also *.example.org), IP addresses, ranges as 10.0.0.0/8, or loopback, linklocal or uniquelocal, with commas between them',
  read: (text) => allowedHosts(text.split(',').map((entry) => entry.trim())),
}

/**
 * Removes secrets from a URL: credentials before the last @, and the query. Without an @, `name:text` may also be a
 * user with a password, unless the text is a port.
 */
function withoutSecrets(text: string): string {
  const at = text.lastIndexOf('@')
  const scheme = /^[a-z0-9+.-]*:\/\//i.exec(text)?.[0] ?? ''
  const shown =
    at === -1
      ? text.replace(/^([a-z0-9+.-]*:\/\/)[^:/?]*:(?!\d{1,5}(?:[,/?]|$)).*$/is, '$1***')
      : `${scheme}***${text.slice(at)}`
  return shown.replace(/\?.*$/s, '?***')
}

export const webUrl: Kind<string> = {
  allowed: 'an http:// or https:// URL without credentials, query, fragment or trailing slash',
  read: (text) =>
    URL.canParse(text) && /^https?:\/\/[^\s/@?#\\][^\s@?#\\]*(?<!\/)$/i.test(text) ? text : undefined,
  show: withoutSecrets,
}

const ORIGIN = /^https?:\/\/[^\s/@?#\\]+$/i

/** Origins of pages. No wildcard: it would include hostile pages, with credentials that a browser has cached. */
export const origins: Kind<readonly string[]> = {
  allowed: 'a list of origins as https://app.example.org, without a path, with commas between them',
  read(text) {
    const entries = text.split(',').map((entry) => entry.trim())
    if (!entries.every((entry) => ORIGIN.test(entry) && URL.canParse(entry))) return undefined
    return Object.freeze(entries.map((entry) => new URL(entry).origin))
  },
}

/** The URL of an OpenID Connect provider. Its path may end with a slash: some issuers have one. */
export const issuer: Kind<string> = {
  allowed:
    'an https:// URL (on this machine also http://) without credentials, query or fragment, as the provider names itself',
  read(text) {
    if (!URL.canParse(text) || !/^https?:\/\/[^\s@?#\\]+$/i.test(text)) return undefined
    const { protocol, hostname } = new URL(text)
    const isHere = ['localhost', '[::1]'].includes(hostname) || /^127(\.\d+){3}$/.test(hostname)
    return protocol === 'https:' || isHere ? text : undefined
  },
  show: withoutSecrets,
}

/** One printable word, for example an id or a claim. */
export const word: Kind<string> = matching(
  '1 to 255 printable characters without spaces',
  /^[\x21-\x7e]{1,255}$/,
)

/** A secret of another service. */
export const secret: Kind<string> = {
  ...matching('8 to 1000 characters long', /^.{8,1000}$/su),
  show: (text) => `(${Array.from(text).length} characters)`,
}

/** Scopes of OpenID Connect, with spaces between them. */
export const openIdScopes: Kind<string> = {
  allowed: 'a list of scopes with spaces between them, among them openid',
  read(text) {
    const scopes = text.split(' ').filter((scope) => scope !== '')
    const isList = scopes.every((scope) => /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(scope))
    return isList && scopes.includes('openid') ? scopes.join(' ') : undefined
  },
}

/** The organization and role of a provider's group. */
export interface GroupGrant {
  group: string
  /** The login of the organization. */
  organization: string
  permission: 'read' | 'write' | 'admin'
}

/** Groups and the organizations of their members, as `developers=acme:write`. */
export const groupGrants: Kind<readonly GroupGrant[]> = {
  allowed:
    'a list of group=organization or group=organization:permission (read, write or admin) with commas between them',
  read(text) {
    const grants = text.split(',').map((entry) => grantIn(entry.trim()))
    const all = grants.filter((grant) => grant !== undefined)
    return all.length === grants.length ? Object.freeze(all) : undefined
  },
}

/** A group name may have any characters: `%2C` is a comma. */
function grantIn(entry: string): GroupGrant | undefined {
  const [, encoded = '', organization = '', permission = 'write'] =
    /^(.+)=([0-9A-Za-z][-.\w]{0,39})(?::(read|write|admin))?$/.exec(entry) ?? []
  if (organization === '' || !/^(?:[^%]|%[0-9A-Fa-f]{2})+$/.test(encoded)) return undefined
  try {
    const known = (['read', 'write', 'admin'] as const).find((one) => one === permission) ?? 'write'
    return { group: decodeURIComponent(encoded), organization, permission: known }
  } catch {
    // Not UTF-8.
    return undefined
  }
}

const PORT = String.raw`(?::\d{1,5})?`
const CREDENTIALS = String.raw`(?:[^\s@/?#]+@)?`
// @eventstore/db-client can't read IPv6 addresses.
const NODE = String.raw`[\w.-]+${PORT}`
const EVENTSTORE = String.raw`://${CREDENTIALS}${NODE}(?:,${NODE})*/?(?:\?\S*)?`
const MEMBER = String.raw`(?:[\w.%-]+|\[[\da-f:.]+\])${PORT}`
const MONGODB = String.raw`://${CREDENTIALS}${MEMBER}(?:,${MEMBER})*(?:/[^\s/?]*)?(?:\?\S*)?`

export const eventStoreUrl: Kind<string> = {
  allowed:
    'a connection string that begins with esdb://, esdb+discover://, kurrentdb:// or kurrentdb+discover://',
  read(text) {
    const url = asEsdb(text)
    return new RegExp(`^esdb(?:\\+discover)?${EVENTSTORE}$`).test(url) ? url : undefined
  },
  problem(text) {
    const url = asEsdb(text)
    if (!url.startsWith('esdb')) return undefined
    try {
      parseEventStoreDbUrl(url)
      return undefined
    } catch (error) {
      if (error instanceof EventStoreDbUrlProblem) return error.message
      throw error
    }
  },
  show: withoutSecrets,
}

/** esdb and kurrentdb name the same protocol. @eventstore/db-client knows only esdb, in lower case. */
function asEsdb(text: string): string {
  return text.replace(
    /^(?:esdb|kurrentdb)(\+discover)?:/i,
    (_, cluster = '') => `esdb${cluster.toLowerCase()}:`,
  )
}

export const mongodbUrl: Kind<string> = {
  ...matching(
    'a connection string that begins with mongodb:// or mongodb+srv://',
    new RegExp(`^mongodb(?:\\+srv)?${MONGODB}$`, 'i'),
  ),
  problem: mongodbUrlProblem,
  show: withoutSecrets,
}
