/** What an access token may be used for: Gitea's scopes. Pure. */

export const SCOPE_CATEGORIES = [
  'activitypub',
  'admin',
  'misc',
  'notification',
  'organization',
  'package',
  'issue',
  'repository',
  'user',
] as const

export type ScopeCategory = (typeof SCOPE_CATEGORIES)[number]
export type ScopeLevel = 'read' | 'write'

const KNOWN = new Set(['all', ...SCOPE_CATEGORIES.flatMap((name) => [`read:${name}`, `write:${name}`])])

/** The scopes that a token can't have. `public-only` is one: a restriction that is not enforced is a trap. */
export function unknownScopes(scopes: readonly string[]): string[] {
  return scopes.filter((scope) => !KNOWN.has(scope))
}

/** Each scope once, in Gitea's order: `write` implies `read`, and everything together is `all`. */
export function normalScopes(scopes: readonly string[]): string[] {
  const given = new Set(scopes)
  if (given.has('all') || SCOPE_CATEGORIES.every((name) => given.has(`write:${name}`))) return ['all']
  return SCOPE_CATEGORIES.flatMap((name) => {
    if (given.has(`write:${name}`)) return [`write:${name}`]
    return given.has(`read:${name}`) ? [`read:${name}`] : []
  })
}

/** The scopes that a request needs and the token does not have. */
export function missingScopes(
  scopes: readonly string[],
  categories: readonly ScopeCategory[],
  level: ScopeLevel,
): string[] {
  if (scopes.includes('all')) return []
  return categories
    .filter(
      (name) => !scopes.includes(`write:${name}`) && !(level === 'read' && scopes.includes(`read:${name}`)),
    )
    .map((name) => `${level}:${name}`)
}
