/** What an archived repository refuses: all that would change it, apart from its settings and who has access. Pure. */
import { coded, type Refusal, refuse } from '../errors/refusal.ts'

/** What may be changed under `/repos/{owner}/{repo}` while the repository is archived, by the next word of the path. */
const STILL_CHANGES: ReadonlySet<string> = new Set([
  // The repository itself: its settings, and its deletion.
  '',
  // These make another repository, or give it to another owner.
  'forks',
  'generate',
  'transfer',
  // Who has access, and who hears of it.
  'collaborators',
  'teams',
  'keys',
  'hooks',
  'subscription',
  'notifications',
  'topics',
  // Nothing is changed by these.
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

/** The refusal of a request to a route of an archived repository; undefined when it may go on. */
export function refusalWhenArchived(method: string, route: string): Refusal | undefined {
  if (READS.has(method)) return undefined
  const [, word = ''] = OF_A_REPOSITORY.exec(route) ?? []
  return STILL_CHANGES.has(word) ? undefined : archivedRefusal
}
