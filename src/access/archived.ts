/** Refuses changes of an archived repository, apart from its settings and access. Pure. */
import { coded, type Refusal, refuse } from '../errors/refusal.ts'

/** The routes that stay allowed in an archived repository, by their path segment after `/repos/{owner}/{repo}`. */
const STILL_CHANGES: ReadonlySet<string> = new Set([
  // The repository itself: its settings, and its deletion.
  '',
  // These make another repository, or give it to another owner.
  'forks',
  'generate',
  'transfer',
  // Access and notifications.
  'collaborators',
  'teams',
  'keys',
  'hooks',
  'subscription',
  'notifications',
  'topics',
  // These change nothing.
  'markdown',
  'markup',
  'file-contents',
])

const READS: ReadonlySet<string> = new Set(['GET', 'HEAD'])
const OF_A_REPOSITORY = /\/repos\/:owner\/:repo(?:\/([^/]*))?/

export const archivedRefusal = coded(
  'repository_archived',
  refuse.locked('the repository is archived: it can only be read'),
)

/** Returns the refusal of a request to a route of an archived repository; undefined when it is allowed. */
export function refusalWhenArchived(method: string, route: string): Refusal | undefined {
  if (READS.has(method)) return undefined
  const [, word = ''] = OF_A_REPOSITORY.exec(route) ?? []
  return STILL_CHANGES.has(word) ? undefined : archivedRefusal
}
