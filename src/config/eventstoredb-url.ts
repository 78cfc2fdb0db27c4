/**
 * Parses connection strings of EventStoreDB: `esdb://user:password@host:2113,other:2113?tls=false`. The driver has a parser
 * too, but it prints the whole string, with its password, when it refuses or ignores a part of it. Messages of this module
 * contain no values of the string.
 */

export interface EventStoreDbUrl {
  /** `esdb+discover`: the hosts return the nodes of the cluster. Several hosts imply it. */
  discovers: boolean
  hosts: { address: string; port: number }[]
  user?: { username: string; password: string }
  options: EventStoreDbOptions
}

interface EventStoreDbOptions {
  tls: boolean
  tlsCAFile?: string
  userCertFile?: string
  userKeyFile?: string
  connectionName?: string
  nodePreference?: 'leader'
  maxDiscoverAttempts?: number
  /** Milliseconds. */
  discoveryInterval?: number
  /** Seconds. */
  gossipTimeout?: number
  /** Milliseconds, like the next two; -1 means never. */
  defaultDeadline?: number
  keepAliveInterval?: number
  keepAliveTimeout?: number
}

const DEFAULT_PORT = 2113

/** Thrown for an invalid connection string. The message continues a sentence that begins with the setting's name. */
export class EventStoreDbUrlProblem extends Error {
  override readonly name = 'EventStoreDbUrlProblem'
}

const NOT_ENCODED =
  'has a user or a password with a character that must be percent-encoded: ' +
  '% as %25, / as %2F, @ as %40, ? as %3F, # as %23, : as %3A'

type Reader<T> = { allowed: string; read: (value: string) => T | undefined }

const flag: Reader<boolean> = {
  allowed: 'true or false',
  read: (value) => (value === 'true' ? true : value === 'false' ? false : undefined),
}
const text: Reader<string> = { allowed: 'percent-encoded text', read: (value) => decoded(value) || undefined }
/** Only the leader: followers may lag behind its writes. */
const preference: Reader<'leader'> = {
  allowed: 'leader: other nodes may lag behind what was written',
  read: (value) => (flat(value) === 'leader' ? 'leader' : undefined),
}

function integer(min: number, orNever = false): Reader<number> {
  return {
    allowed: `a whole number from ${min}${orNever ? ', or -1' : ''}`,
    read(value) {
      if (!/^(?:\d{1,9}|-1)$/.test(value)) return undefined
      const number = Number(value)
      return number >= min || (orNever && number === -1) ? number : undefined
    },
  }
}

const readers: { [Key in keyof Required<EventStoreDbOptions>]: Reader<EventStoreDbOptions[Key]> } = {
  tls: flag,
  tlsCAFile: text,
  userCertFile: text,
  userKeyFile: text,
  connectionName: text,
  nodePreference: preference,
  maxDiscoverAttempts: integer(1),
  discoveryInterval: integer(1),
  gossipTimeout: integer(1),
  defaultDeadline: integer(1),
  keepAliveInterval: integer(10_000, true),
  keepAliveTimeout: integer(1, true),
}

/** Ignores case, `-` and `_`, like the driver. */
const flat = (name: string) => name.trim().toLowerCase().replace(/[_-]/g, '')

function decoded(value: string): string | undefined {
  try {
    return decodeURIComponent(value)
  } catch {
    return undefined
  }
}

/** @throws EventStoreDbUrlProblem when the connection string has a mistake */
export function parseEventStoreDbUrl(url: string): EventStoreDbUrl {
  const [, scheme, rest = ''] = /^(esdb(?:\+discover)?):\/\/(.*)$/s.exec(url.trim()) ?? []
  if (scheme === undefined) throw new EventStoreDbUrlProblem('must begin with esdb:// or esdb+discover://')
  const at = rest.lastIndexOf('@')
  const user = at === -1 ? undefined : parseUser(rest.slice(0, at))
  const [, hosts = '', query = ''] = /^([^/?]*)\/?(?:\?(.*))?$/s.exec(rest.slice(at + 1)) ?? []
  return {
    discovers: scheme === 'esdb+discover',
    hosts: hosts.split(',').map(parseHost),
    ...(user && { user }),
    options: parseOptions(query),
  }
}

function parseUser(credentials: string): { username: string; password: string } {
  const colon = credentials.indexOf(':')
  if (colon === -1) throw new EventStoreDbUrlProblem('names a user without a password')
  const username = decoded(credentials.slice(0, colon))
  const password = decoded(credentials.slice(colon + 1))
  if (/[@/?#\s]/.test(credentials) || username === undefined || password === undefined) {
    throw new EventStoreDbUrlProblem(NOT_ENCODED)
  }
  return { username, password }
}

function parseHost(host: string): { address: string; port: number } {
  const [, address, port = String(DEFAULT_PORT)] = /^([\w.-]+)(?::(\d{1,5}))?$/.exec(host.trim()) ?? []
  if (address === undefined || Number(port) > 65_535) {
    throw new EventStoreDbUrlProblem(
      'has a host that is not written as name or name:port (an IPv6 address needs a name)',
    )
  }
  return { address, port: Number(port) }
}

function parseOptions(query: string): EventStoreDbOptions {
  const options: EventStoreDbOptions = { tls: true }
  const given = new Set<string>()
  for (const pair of query.split('&')) {
    if (pair === '') continue
    const [name = '', ...values] = pair.split('=')
    const value = values.join('=').trim()
    const shown = JSON.stringify(name.slice(0, 40))
    if (given.has(flat(name))) throw new EventStoreDbUrlProblem(`has the option ${shown} twice`)
    given.add(flat(name))
    if (flat(name) === flat('tlsVerifyCert')) requireVerified(value)
    else if (!setOption(options, flat(name), value)) {
      const names = Object.keys(readers).join(', ')
      throw new EventStoreDbUrlProblem(`has the option ${shown}, which does not exist; there are ${names}`)
    }
  }
  if ((options.userCertFile === undefined) !== (options.userKeyFile === undefined)) {
    throw new EventStoreDbUrlProblem('must have both of the options userCertFile and userKeyFile, or none')
  }
  return options
}

/** Returns false when there is no such option. */
function setOption(options: EventStoreDbOptions, name: string, value: string): boolean {
  for (const [key, { allowed, read }] of Object.entries(readers)) {
    if (flat(key) !== name) continue
    const parsed = read(value)
    if (parsed === undefined)
      throw new EventStoreDbUrlProblem(`has the option ${key}, which must be ${allowed}`)
    Object.assign(options, { [key]: parsed })
    return true
  }
  return false
}

function requireVerified(value: string): void {
  if (value === 'true') return
  throw new EventStoreDbUrlProblem(
    'has the option tlsVerifyCert, which can only be true: name the certificate of your CA with tlsCAFile, ' +
      'or use tls=false',
  )
}
