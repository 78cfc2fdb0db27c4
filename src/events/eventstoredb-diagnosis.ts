/** Says why no node of EventStoreDB can be reached. The driver hides it behind "failed to discover". */
import { readFileSync } from 'node:fs'
import { connect as connectPlain, isIP } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { EventStoreDbUrl } from '../eventstoredb-url.ts'
import { StoreDenied, StoreUnavailable } from './event-store.ts'

const TIMEOUT_MS = 3000

type Host = EventStoreDbUrl['hosts'][number]

/** What to do, by the code of the error with which a connection fails. */
const ADVICE: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'no server listens there: start it, or correct the port',
  ENOTFOUND: 'there is no host with this name: correct it',
  EAI_AGAIN: 'the name of the host cannot be looked up now: check the DNS',
  ETIMEDOUT: 'nothing answers there: check the address and the firewall',
  EPROTO: 'the server does not speak TLS: add tls=false, or turn TLS on at the server',
  ECONNRESET: 'the server does not speak TLS: add tls=false, or turn TLS on at the server',
  ERR_SSL_WRONG_VERSION_NUMBER: 'the server does not speak TLS: add tls=false, or turn TLS on at the server',
  CERT_HAS_EXPIRED: 'the certificate of the server has expired: renew it',
  CERT_NOT_YET_VALID: 'the certificate of the server is not valid yet: check the clocks',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate of the server is for another host: use a name that it has',
}

/** The codes of a certificate whose issuer is not known. */
const UNKNOWN_ISSUER = /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_)/

/** Returns the error for the operator, in one line, when the server could not be used at the start. */
export async function startProblem(url: EventStoreDbUrl, error: unknown): Promise<unknown> {
  if (error instanceof StoreDenied || !(error instanceof StoreUnavailable)) return error
  const reasons: string[] = []
  for (const host of url.hosts) {
    const code = await failureOf(host, url)
    if (code === undefined) continue
    const advice = UNKNOWN_ISSUER.test(code)
      ? 'the certificate of the server comes from an unknown CA: name the certificate of the CA with tlsCAFile'
      : (ADVICE[code] ?? 'the connection fails')
    reasons.push(`${host.address}:${host.port}: ${advice} (${code})`)
  }
  const hint = url.options.tls ? '' : '; if the server has TLS, leave out tls=false'
  const why = reasons.length > 0 ? reasons.join('; ') : `the server does not answer as EventStoreDB${hint}`
  return new StoreUnavailable(`EVENTSTORE_URL: ${why}`, { cause: error })
}

/** Connects once. Resolves to the code of the error; undefined when the connection succeeds. */
function failureOf({ address, port }: Host, { options }: EventStoreDbUrl): Promise<string | undefined> {
  const { tls, tlsCAFile } = options
  return new Promise((resolve) => {
    const settings = {
      host: address,
      port,
      ...(isIP(address) === 0 && { servername: address }),
      ...(tlsCAFile !== undefined && { ca: readFileSync(tlsCAFile) }),
      ALPNProtocols: ['h2'],
    }
    const socket = tls ? connectTls(settings) : connectPlain(settings)
    const done = (code?: string) => {
      socket.destroy()
      resolve(code)
    }
    socket.setTimeout(TIMEOUT_MS, () => done('ETIMEDOUT'))
    socket.once(tls ? 'secureConnect' : 'connect', () => done())
    socket.once('error', (error) => done('code' in error ? String(error.code) : error.message))
  })
}
