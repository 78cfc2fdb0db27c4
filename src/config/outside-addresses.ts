/**
 * Distinguishes public addresses from the server's own network. User-provided targets of the server's connections must be
 * public: otherwise users would reach internal hosts through the server.
 */
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { addressesIn } from './address-ranges.ts'

const inRanges = (...ranges: readonly string[]) => addressesIn(ranges) ?? (() => true)

/** IPv4 ranges that are not public: private, loopback, link-local (also the metadata of clouds), multicast, reserved. */
const isInside4 = inRanges(
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
)

/** All public IPv6 addresses. */
const isGlobal6 = inRanges('2000::/3')
/** Exceptions: Teredo and other protocols, examples, and 6to4, which leads to an IPv4 address. */
const isInside6 = inRanges('2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20')
/** Addresses that a gateway translates to the IPv4 address in their last 32 bits. */
const isTranslated = inRanges('64:ff9b::/96')

/** The eight groups of an IPv6 address. */
function groupsOf(address: string): number[] {
  // The URL parser normalizes addresses, to a form without dots.
  const plain = new URL(`http://[${address}]/`).hostname.slice(1, -1)
  const [head = '', tail = ''] = plain.split('::')
  const groups = (part: string) =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16))
  const [leading, trailing] = [groups(head), groups(tail)]
  const zeros = Array.from({ length: Math.max(0, 8 - leading.length - trailing.length) }, () => 0)
  return [...leading, ...zeros, ...trailing]
}

/** The IPv4 address at the end of an IPv6 address. */
function lastIPv4(groups: readonly number[]): string {
  const [high = 0, low = 0] = groups.slice(6)
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}

/** Normalizes an address: an IPv4 address written as IPv6 becomes IPv4. */
function plainAddress(address: string): string {
  if (isIP(address) !== 6 || address.includes('%')) return address
  const groups = groupsOf(address)
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  return isMapped || isTranslated(address) ? lastIPv4(groups) : address
}

/** Whether an address is this host's own, even a public one. */
function isOwn(address: string): boolean {
  const all = Object.values(networkInterfaces()).flatMap((of) => of ?? [])
  return all.some((own) => own.address === address)
}

/** Whether an address is public, and not this host's own. False for texts that are not addresses. */
export function isOutside(address: string): boolean {
  const plain = plainAddress(address)
  const family = plain.includes('%') ? 0 : isIP(plain)
  if (family === 4) return !isInside4(plain) && !isOwn(plain)
  return family === 6 && isGlobal6(plain) && !isInside6(plain) && !isOwn(plain)
}

/** Exceptions by the operator. */
export interface AllowedHosts {
  /** Whether a host name is allowed with any address. */
  name(host: string): boolean
  address(address: string): boolean
}

const HOST_NAME = /^(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?$/

/**
 * Reads entries: host names (`ci.internal`), all names below one (`*.internal`), addresses, ranges as `10.0.0.0/8`,
 * `loopback`, `linklocal` or `uniquelocal`. Undefined for an invalid entry.
 */
export function allowedHosts(entries: readonly string[]): AllowedHosts | undefined {
  const names: string[] = []
  const ranges: string[] = []
  for (const entry of entries.map((text) => text.toLowerCase())) {
    if (addressesIn([entry]) !== undefined) ranges.push(entry)
    else if (HOST_NAME.test(entry) && !/^[\d.]+$/.test(entry)) names.push(entry)
    else return undefined
  }
  const isInRange = addressesIn(ranges)
  if (isInRange === undefined) return undefined
  const plainName = (host: string) => host.toLowerCase().replace(/\.$/, '')
  return {
    name: (host) =>
      names.some((name) =>
        name.startsWith('*.') ? plainName(host).endsWith(name.slice(1)) : plainName(host) === name,
      ),
    address: (address) => isInRange(plainAddress(address)) || isInRange(address),
  }
}

/** No exceptions. */
export const NO_HOSTS: AllowedHosts = { name: () => false, address: () => false }
