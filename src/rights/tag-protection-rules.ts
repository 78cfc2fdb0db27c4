/** Who may make, move and delete a tag. Pure. */
import type { TagProtection } from '../events/tag-protection-events.ts'
import { globMatches, isPattern } from './glob.ts'

/**
 * As in Gitea, a tag that no protection matches is for all writers; any other one only for the users that one of its
 * protections names, also among admins.
 */
export function mayControlTag(
  protections: readonly Pick<TagProtection, 'pattern' | 'users'>[],
  tag: string,
  userId: number,
): boolean {
  const matching = protections.filter(({ pattern }) =>
    isPattern(pattern) ? globMatches(pattern, tag) : pattern === tag,
  )
  return matching.length === 0 || matching.some(({ users }) => users.includes(userId))
}
