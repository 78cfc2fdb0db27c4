/** Permission to create, move and delete a tag. Pure. */
import type { TagProtection } from '../events/catalog/tags.ts'
import { globMatches, isPattern } from './glob.ts'
import type { Member } from './protection-rules.ts'
import { isRegex, regexMatches } from './tag-regex.ts'

/**
 * As in Gitea, all writers control an unprotected tag. Only users and teams that a matching protection names control a
 * protected one; an admin must be named, too.
 */
export function mayControlTag(
  protections: readonly Pick<TagProtection, 'pattern' | 'users' | 'teams'>[],
  tag: string,
  member: Member,
): boolean {
  const matching = protections.filter(({ pattern }) => matches(pattern, tag))
  const isNamed = ({ users, teams = [] }: (typeof matching)[number]) =>
    users.includes(member.id) || teams.some((id) => member.teams.includes(id))
  return matching.length === 0 || matching.some(isNamed)
}

function matches(pattern: string, tag: string): boolean {
  if (isRegex(pattern)) return regexMatches(pattern, tag)
  return isPattern(pattern) ? globMatches(pattern, tag) : pattern === tag
}
