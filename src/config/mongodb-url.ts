/**
 * Validates connection strings of MongoDB. The driver has a parser too, but it accepts options that can lose data or hang a
 * call. Messages of this module contain no values of the string, because a value may be a password.
 */

interface Rule {
  allowed: string
  accepts: (value: string) => boolean
}

const anything: Rule = {
  allowed: 'percent-encoded text',
  accepts: (value) => decodable(value) && value !== '',
}
const flag: Rule = oneOf('true', 'false')

function oneOf(...values: string[]): Rule {
  return { allowed: values.join(' or '), accepts: (value) => values.includes(value.toLowerCase()) }
}

function between(min: number, max: number): Rule {
  return {
    allowed: `a whole number from ${min} to ${max}`,
    accepts: (value) => /^\d{1,9}$/.test(value) && Number(value) >= min && Number(value) <= max,
  }
}

const COMPRESSORS = ['none', 'zlib']

/** Options that an operator may set. Times are in milliseconds. */
const RULES: Record<string, Rule> = {
  appName: anything,
  authSource: anything,
  authMechanism: anything,
  authMechanismProperties: anything,
  tls: flag,
  ssl: flag,
  tlsCAFile: anything,
  tlsCRLFile: anything,
  tlsCertificateKeyFile: anything,
  tlsCertificateKeyFilePassword: anything,
  tlsAllowInvalidCertificates: flag,
  tlsAllowInvalidHostnames: flag,
  tlsInsecure: flag,
  replicaSet: anything,
  directConnection: flag,
  loadBalanced: flag,
  srvMaxHosts: between(0, 1000),
  srvServiceName: anything,
  srvAllowedHostsSuffix: anything,
  minPoolSize: between(0, 1000),
  // Without a limit, the driver's pool has at most 100 connections; 0 would mean unlimited.
  maxPoolSize: between(1, 1000),
  maxConnecting: between(1, 100),
  maxIdleTimeMS: between(0, 86_400_000),
  compressors: {
    allowed: `a list of ${COMPRESSORS.join(' and ')}`,
    accepts: (value) => value.split(',').every((one) => COMPRESSORS.includes(one)),
  },
  zlibCompressionLevel: between(0, 9),
  localThresholdMS: between(0, 10_000),
  serverMonitoringMode: oneOf('auto', 'poll', 'stream'),
  retryReads: flag,
  retryWrites: flag,
  // Limited: otherwise calls would hang or fail too early.
  serverSelectionTimeoutMS: between(100, 15_000),
  connectTimeoutMS: between(100, 15_000),
  heartbeatFrequencyMS: between(500, 10_000),
  waitQueueTimeoutMS: between(100, 30_000),
  socketTimeoutMS: between(60_000, 3_600_000),
  wtimeoutMS: between(1000, 60_000),
  // Required by Mergelog: acknowledged writes must survive the loss of a server and be readable.
  w: oneOf('majority'),
  journal: oneOf('true'),
  readConcernLevel: oneOf('majority'),
  readPreference: oneOf('primary'),
}

/** Aliases of options in the driver. */
const OTHER_NAMES: ReadonlyMap<string, string> = new Map([
  ['j', 'journal'],
  ['wtimeout', 'wtimeoutMS'],
])

const NOT_ENCODED =
  'has a user or a password with a character that must be percent-encoded: ' +
  '% as %25, / as %2F, @ as %40, ? as %3F, # as %23, : as %3A'

/**
 * Returns the problem of a connection string that begins with `mongodb://` or `mongodb+srv://`; undefined for a valid one,
 * or another URL. The text continues a sentence that begins with the setting's name.
 */
export function mongodbUrlProblem(url: string): string | undefined {
  const [, service, rest = ''] = /^mongodb(\+srv)?:\/\/(.*)$/is.exec(url) ?? []
  if (rest === '') return undefined
  const at = rest.lastIndexOf('@')
  const user = rest.slice(0, Math.max(at, 0))
  if (/[@/?#\s]/.test(user) || user.split(':').length > 2 || !decodable(user)) return NOT_ENCODED
  const [, hosts = '', query = ''] = /^([^/?]*)(?:\/[^?]*)?(?:\?(.*))?$/s.exec(rest.slice(at + 1)) ?? []
  if (service !== undefined && /[,:]/.test(hosts)) {
    return 'begins with mongodb+srv://, so it must have exactly one host, without a port'
  }
  return optionsProblem(query)
}

function optionsProblem(query: string): string | undefined {
  const given = new Set<string>()
  for (const pair of query.split('&')) {
    if (pair === '') continue
    const [written = '', ...values] = pair.split('=')
    const shown = JSON.stringify(written.slice(0, 40))
    const wanted = (OTHER_NAMES.get(written.toLowerCase()) ?? written).toLowerCase()
    const found = Object.entries(RULES).find(([name]) => name.toLowerCase() === wanted)
    if (found === undefined) {
      return `has the option ${shown}, which Mergelog does not allow; the allowed ones are ${Object.keys(RULES).join(', ')}`
    }
    const [name, rule] = found
    if (given.has(name)) return `has the option ${shown} twice`
    given.add(name)
    if (!rule.accepts(values.join('='))) return `has the option ${name}, which must be ${rule.allowed}`
  }
  return undefined
}

function decodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
