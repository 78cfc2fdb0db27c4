/** Where a request is to be sent whose path has the old place of something. */

export interface Moved {
  /** What follows one another in the path, decoded; the last part also with `.git` behind it. */
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
 * A `Location` for the request with this URL: relative, so that it is right behind every proxy and below every path.
 * With `base`, what comes before each path of the server, it is a whole path or URL: not all clients of git resolve others.
 * `route`: the pattern of the path (`/api/v1/repos/:owner/:repo`). An owner may have the name of a part that is no
 * parameter. Undefined when the path does not have the old place.
 */
export function locationOf(
  { url, route }: { url: string; route: string },
  { from, to }: Moved,
  base?: string,
): string | undefined {
  const [whole = '', ...query] = url.split('?')
  // A client may name the scheme and the host, too.
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
