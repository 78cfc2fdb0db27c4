/**
 * Sends requests to URLs of users: only to addresses outside of the server's own network, unless the operator allows
 * them. The address is looked up, checked and connected to in one step, so that a name cannot change in between; each
 * redirect is checked again. Answers have limits of time and bytes.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { type AllowedHosts, isOutside } from '../../config/outside-addresses.ts'
import { byDns, bySystem, hostOf, type Resolve } from './host-lookup.ts'

/** Users may not make the server connect to this address. */
export class InternalAddress extends Error {
  override readonly name = 'InternalAddress'

  constructor(host: string) {
    super(`${host} is in the server's own network, and WEBHOOK_ALLOWED_HOSTS does not allow it`)
  }
}

/** A server redirected too often, or to an address other than a web address. */
export class BadRedirect extends Error {
  override readonly name = 'BadRedirect'
}

/** The connection ended without an HTTP answer. */
class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
}

const MAX_REDIRECTS = 3
/** Redirects to follow, always with the method and the body: a delivery without its body is useless. */
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 307, 308])
/** Maximum number of bytes that are read of an answer, which is discarded. */
const MAX_ANSWER_BYTES = 64 * 1024
/** Maximum number of interim answers such as `103 Early Hints`, whose bytes are not counted. */
const MAX_INTERIM = 10

export interface OutboundPost {
  url: URL
  headers: Readonly<Record<string, string>>
  body: string
  /** Sent only to the origin of `url`, not to redirects to another origin. */
  authorization?: string | undefined
  signal: AbortSignal
}

export interface OutboundHttp {
  /** Returns why a URL is never allowed, without a look-up; undefined when it may be. */
  problem(url: URL): string | undefined
  /**
   * Sends a POST, and resolves to the status of the answer when it was read to its end or limit.
   * @throws InternalAddress, BadRedirect, NoAnswer, errors of DNS, of connections and of TLS, and the signal's reason
   */
  post(request: OutboundPost): Promise<number>
}

/** `resolve` replaces the name servers and the system. */
export function createOutboundHttp(allowed: AllowedHosts, resolve?: Resolve): OutboundHttp {
  const fromDns = resolve ?? byDns()
  /** Hosts that the operator allows may be in the system's hosts file. */
  const fromSystem = resolve ?? bySystem()
  const mayConnect = (address: string) => isOutside(address) || allowed.address(address)

  /** Returns the allowed addresses of a host. @throws InternalAddress without any */
  async function addressesOf(host: string, signal: AbortSignal): Promise<string[]> {
    const isNamed = allowed.name(host)
    const found = await (isNamed ? fromSystem : fromDns)(host, signal)
    const usable = isNamed ? found : found.filter(mayConnect)
    if (usable.length === 0) throw new InternalAddress(host)
    return usable
  }

  const lookupUntil = (signal: AbortSignal): LookupFunction => {
    return (host, options, callback) => {
      addressesOf(host, signal).then(
        (found) => {
          const all = found.map((address) => ({ address, family: isIP(address) }))
          const [first] = all
          if (options.all === true || first === undefined) callback(null, all)
          else callback(null, first.address, first.family)
        },
        (error: unknown) => callback(error instanceof Error ? error : new Error(String(error)), ''),
      )
    }
  }

  /** An address in a URL needs no look-up. */
  function requireUsable(url: URL): void {
    const host = hostOf(url)
    if (isIP(host) !== 0 && !mayConnect(host) && !allowed.name(host)) throw new InternalAddress(host)
  }

  function once(
    url: URL,
    headers: Record<string, string>,
    { body, signal }: OutboundPost,
  ): Promise<IncomingMessage> {
    requireUsable(url)
    const start = url.protocol === 'https:' ? httpsRequest : httpRequest
    return new Promise((answered, reject) => {
      // No shared agent: a kept connection was checked for another URL.
      const lookup = lookupUntil(signal)
      const request = start(url, { method: 'POST', headers, lookup, signal, agent: false })
      request.on('error', (error) => reject(signal.aborted ? signal.reason : error))
      request.on('response', answered)
      let interim = 0
      request.on('information', () => {
        interim += 1
        if (interim > MAX_INTERIM) request.destroy(new NoAnswer('too many interim answers'))
      })
      // An answer that changes to another protocol is neither a response nor an error: Node only closes the connection.
      request.on('close', () => reject(new NoAnswer('the connection ended without an answer')))
      request.end(body)
    })
  }

  return {
    problem(url) {
      try {
        requireUsable(url)
        return undefined
      } catch (error) {
        return error instanceof Error ? error.message : String(error)
      }
    },
    async post(wanted) {
      let { url } = wanted
      for (let redirects = 0; ; redirects++) {
        const isOrigin = url.origin === wanted.url.origin
        const { authorization } = wanted
        const answer = await once(
          url,
          {
            ...wanted.headers,
            ...(isOrigin && authorization !== undefined && { authorization }),
          },
          wanted,
        )
        await readToEnd(answer)
        const { statusCode: status = 0, headers } = answer
        if (!REDIRECTS.has(status) || headers.location === undefined) return status
        if (redirects === MAX_REDIRECTS) throw new BadRedirect(`more than ${MAX_REDIRECTS} redirects`)
        url = redirected(url, headers.location)
      }
    },
  }
}

/** @throws BadRedirect */
function redirected(from: URL, location: string): URL {
  const to = URL.canParse(location, from.href) ? new URL(location, from) : undefined
  if (to === undefined || (to.protocol !== 'https:' && to.protocol !== 'http:'))
    throw new BadRedirect('a redirect to an address other than http or https')
  // Drop credentials that the other server chose.
  to.username = ''
  to.password = ''
  return to
}

/** Reads an answer to its end or limit. The status is known already, so errors are ignored. */
function readToEnd(answer: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    answer.on('data', () => {
      // Bytes on the wire: an answer in very small chunks is mostly overhead.
      if (answer.socket.bytesRead > MAX_ANSWER_BYTES) answer.destroy()
    })
    answer.on('error', () => {})
    answer.on('close', () => resolve())
  })
}
