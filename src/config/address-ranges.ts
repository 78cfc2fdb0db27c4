/** Internet addresses: ranges, and the network of a client. */
import { BlockList, isIP, isIPv6 } from 'node:net'

/** Named ranges, as in proxies and frameworks. */
const NAMED: ReadonlyMap<string, readonly string[]> = new Map([
  ['loopback', ['127.0.0.0/8', '::1']],
  ['linklocal', ['169.254.0.0/16', 'fe80::/10']],
  ['uniquelocal', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']],
])

const familyOf = (address: string) => (isIPv6(address) ? 'ipv6' : 'ipv4')

/**
 * Returns a predicate for addresses in one of these ranges; undefined for an invalid entry. An entry is an address, a
 * range as `10.0.0.0/8`, or `loopback`, `linklocal` or `uniquelocal`.
 */
export function addressesIn(entries: readonly string[]): ((address: string) => boolean) | undefined {
  const ranges = new BlockList()
  for (const range of entries.flatMap((entry) => NAMED.get(entry.toLowerCase()) ?? [entry])) {
    const [, address = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(range) ?? []
    const maxBits = isIPv6(address) ? 128 : 32
    if (isIP(address) === 0 || address.includes('%') || Number(bits ?? maxBits) > maxBits) return undefined
    ranges.addSubnet(address, Number(bits ?? maxBits), familyOf(address))
  }
  return (address) => isIP(address) !== 0 && ranges.check(address, familyOf(address))
}

const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i

/**
 * Returns the part of an address that identifies a client: all of an IPv4 address, the first 64 bits of an IPv6
 * address. Providers give each customer a /64, so a client could use a new address for each request. Texts that are not
 * addresses count as one client.
 */
export function networkOf(text: string): string {
  // Cached, because each request needs it several times.
  if (last?.text !== text) last = { text, network: networkIn(text) }
  return last.network
}

let last: { text: string; network: string } | undefined

function networkIn(text: string): string {
  // Some proxies send a port with the address.
  const [, inBrackets, beforePort] = /^\[([^\]]+)\](?::\d+)?$|^([\d.]+):\d+$/.exec(text) ?? []
  const bare = inBrackets ?? beforePort ?? text
  const address = MAPPED.exec(bare)?.[1] ?? bare
  if (!isIPv6(address)) return isIP(address) === 4 ? address : 'unknown'
  const [head = '', tail = ''] = (address.split('%')[0] ?? '').split('::')
  const groups = (part: string) => (part === '' ? [] : part.split(':'))
  // An IPv4 address at the end replaces two groups, never the first four.
  const leading = groups(head)
  const trailing = groups(tail).flatMap((group) => (group.includes('.') ? [group, ''] : [group]))
  const zeros = Array.from({ length: Math.max(0, 8 - leading.length - trailing.length) }, () => '0')
  const first = [...leading, ...zeros, ...trailing]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
  return `${first.join(':')}::/64`
}

/**
 * Returns the ranges around a network (see `networkOf`) that one client may hold as a whole: the /24 of an IPv4 address,
 * and the /48 and /32 of an IPv6 network. The smaller one is first.
 */
export function rangesAround(network: string): readonly string[] {
  if (network.includes(':')) {
    const [a, b, c] = network.split(':')
    return [`${a}:${b}:${c}::/48`, `${a}:${b}::/32`]
  }
  const [a, b, c] = network.split('.')
  return c === undefined ? [] : [`${a}.${b}.${c}.0/24`]
}
