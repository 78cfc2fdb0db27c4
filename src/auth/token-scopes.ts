/** Scopes of access tokens, as in Gitea. Pure. */

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

/**
 * Returns the scopes that a token cannot have. `public-only` is one of them: it is not enforced, so accepting it would
 * mislead.
 */
export function unknownScopes(scopes: readonly string[]): string[] {
  return scopes.filter((scope) => !KNOWN.has(scope))
}

/** Returns each scope once, in Gitea's order. `write` includes `read`, and `write` for all categories is `all`. */
export function normalScopes(scopes: readonly string[]): string[] {
  const granted = new Set(scopes)
  if (granted.has('all') || SCOPE_CATEGORIES.every((name) => granted.has(`write:${name}`))) return ['all']
  return SCOPE_CATEGORIES.flatMap((name) => {
    if (granted.has(`write:${name}`)) return [`write:${name}`]
    return granted.has(`read:${name}`) ? [`read:${name}`] : []
  })
}

/** Returns the scopes that a request needs and the token lacks. */
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
