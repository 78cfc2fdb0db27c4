/** Permission to create, move and delete a tag. Pure. */
import type { TagProtection } from '../events/catalog/tags.ts'
import { globMatches, isPattern } from './glob.ts'
import type { Member } from './protection-rules.ts'
import { isRegex, regexMatches } from './tag-regex.ts'

/**
 * As in Gitea, a tag that no protection matches is for all writers; any other one only for the users and teams that one of
 * its protections names, also among admins.
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
