/**
 * Looks up the addresses of other hosts. The owner of a name controls the delay and the number of addresses, so both
 * have a limit.
 */
import { lookup, Resolver } from 'node:dns/promises'
import { rejectOnAbort } from '../../concurrency/coalesce.ts'
import { createSemaphore } from '../../concurrency/semaphore.ts'

/** The host of a URL, without the brackets of an IPv6 address. */
export const hostOf = (url: URL) => url.hostname.replace(/^\[(.*)\]$/, '$1')

/** Resolves to the addresses of a host name. @throws when it has none, or when the signal aborts */
export type Resolve = (host: string, signal: AbortSignal) => Promise<string[]>

/** Timeout of the first of two attempts, in milliseconds. */
const ATTEMPT_MS = 3000
/** Time limit of the IPv6 look-up after IPv4, in milliseconds: some name servers do not answer for IPv6. */
const IPV6_MS = 1000
/**
 * Maximum number of used addresses of each kind. An answer may have thousands, and a connection tries each for a
 * quarter of a second.
 */
const MAX_ADDRESSES = 8

/**
 * Uses the system's resolver, including its hosts file. A look-up blocks one of two threads of the process, so only one
 * runs at a time; the others wait until their signals abort. `look` replaces the system.
 */
export function bySystem(look: (host: string) => Promise<{ address: string }[]> = lookupAll): Resolve {
  const threads = createSemaphore({ size: 1 })
  return async (host, signal) => {
    const release = await threads.take(host, signal)
    // The thread stays blocked until the look-up ends, even after an abort.
    const found = look(host).finally(release)
    return (await rejectOnAbort(found, signal, () => {})).map(({ address }) => address)
  }
}

const lookupAll = (host: string) => lookup(host, { all: true })

/**
 * Queries name servers only, without a thread, so a slow name blocks nothing. `servers` replaces the system's, as
 * `address:port`.
 */
export function byDns(servers?: readonly string[]): Resolve {
  return async (host, signal) => {
    if (host === 'localhost' || host.endsWith('.localhost')) return ['127.0.0.1', '::1']
    signal.throwIfAborted()
    const resolver = new Resolver({ timeout: ATTEMPT_MS, tries: 2 })
    if (servers !== undefined) resolver.setServers(servers)
    const giveUp = () => resolver.cancel()
    let timer: NodeJS.Timeout | undefined
    const ipv4 = async () => {
      const addresses = await resolver.resolve4(host)
      timer = setTimeout(giveUp, IPV6_MS)
      return addresses
    }
    signal.addEventListener('abort', giveUp, { once: true })
    try {
      const found = await Promise.allSettled([ipv4(), resolver.resolve6(host)])
      const addresses = found.flatMap((answer) =>
        answer.status === 'fulfilled' ? answer.value.slice(0, MAX_ADDRESSES) : [],
      )
      const [first] = found
      if (addresses.length === 0)
        throw first.status === 'rejected' ? first.reason : new Error(`${host} has no address`)
      return addresses
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', giveUp)
    }
  }
}
