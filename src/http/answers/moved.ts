/** Redirect target of a request to the old path of something. */

export interface Moved {
  /** Consecutive path segments, decoded; the last may end with `.git`. */
  from: readonly string[]
  to: readonly string[]
}

const GIT = '.git'

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/**
 * Returns the `Location` for a request URL: relative, so that it works behind every proxy and base path. With `base`,
 * the prefix of all paths, it is a full path or URL, which some git clients need. `route` is the path pattern
 * (`/api/v1/repos/:owner/:repo`), because an owner may be named like a fixed segment. Undefined when the path lacks the
 * old segments.
 */
export function locationOf(
  { url, route }: { url: string; route: string },
  { from, to }: Moved,
  base?: string,
): string | undefined {
  const [whole = '', ...query] = url.split('?')
  // The URL may have a scheme and a host.
  const path = whole.replace(/^[a-z]+:\/\/[^/]*/i, '')
  const parts = path.split('/')
  const names = parts.map((part) => decoded(part).toLowerCase())
  const pattern = route.split('/')
  const last = from.length - 1
  const isAt = (at: number) =>
    from.every((name, i) => {
      const wanted = name.toLowerCase()
      return names[at + i] === wanted || (i === last && names[at + i] === `${wanted}${GIT}`)
    })
  const at = names.findIndex((_, i) => pattern[i]?.startsWith(':') && isAt(i))
  if (at === -1) return undefined
  const isGit = names[at + last]?.endsWith(GIT) && !from[last]?.toLowerCase().endsWith(GIT)
  const rest = parts.slice(at + from.length)
  const place = to.map(encodeURIComponent).join('/') + (isGit ? GIT : '')
  const before =
    base === undefined ? '../'.repeat(parts.length - 1 - at) : `${base}${parts.slice(0, at).join('/')}/`
  return [`${before}${[place, ...rest].join('/')}`, ...query].join('?')
}
