/**
 * The addresses of the names of other hosts. Whose name it is decides how slow the answer is, and how many addresses are
 * in it: both have a limit.
 */
import { lookup, Resolver } from 'node:dns/promises'
import { rejectOnAbort } from '../../concurrency/coalesce.ts'
import { createSemaphore } from '../../concurrency/semaphore.ts'

/** The host of a URL, as look-ups and connections take it. */
export const hostOf = (url: URL) => url.hostname.replace(/^\[(.*)\]$/, '$1')

/** Addresses of a host name. @throws when it has none, or when the signal is aborted */
export type Resolve = (host: string, signal: AbortSignal) => Promise<string[]>

/** For the first of two questions, in milliseconds. */
const QUESTION_MS = 3000
/** How long IPv6 may take after IPv4, in milliseconds: some name servers say nothing about IPv6. */
const IPV6_MS = 1000
/**
 * The most addresses of each kind that count. An answer may have thousands. Each of them costs a check, and is tried for
 * a quarter of a second when those before it do not answer.
 */
const MAX_ADDRESSES = 8

/**
 * Asks the system, whose own table of hosts counts too. That takes a thread for as long as it takes, and the whole process
 * has two for look-ups: so one at a time. The others wait, at most until their signals are aborted. `look`: instead of
 * the system.
 */
export function bySystem(look: (host: string) => Promise<{ address: string }[]> = lookupAll): Resolve {
  const threads = createSemaphore({ size: 1 })
  return async (host, signal) => {
    const give = await threads.take(host, signal)
    // The thread is taken until the look-up ends, also when nobody waits for it any more.
    const found = look(host).finally(give)
    return (await rejectOnAbort(found, signal, () => {})).map(({ address }) => address)
  }
}

const lookupAll = (host: string) => lookup(host, { all: true })

/**
 * Asks name servers only, without a thread: whose name is looked up may make that as slow as they like.
 * `servers`: instead of the system's, as `address:port`.
 */
export function byDns(servers?: readonly string[]): Resolve {
  return async (host, signal) => {
    if (host === 'localhost' || host.endsWith('.localhost')) return ['127.0.0.1', '::1']
    signal.throwIfAborted()
    const resolver = new Resolver({ timeout: QUESTION_MS, tries: 2 })
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
