/** Checks which objects a fetch may have. Version 2 of the protocol serves every object that the repository has. */
import type { Readable } from 'node:stream'
import { firstUnreachable, tipsOf, unreachedAmong } from '../commits/reachable.ts'
import { namedObjects } from './upload-request.ts'

export interface CheckedNames {
  /** The id of an object that the fetch wants and that no ref reaches; undefined when all may be served. */
  refused?: string
  /**
   * Objects that the client says it has, and that the repository has although no ref reaches them. git must not see these
   * lines: it would send the parents of a shallow commit, and tell which of the client's commits it has.
   */
  hidden: ReadonlySet<string>
}

/**
 * Checks all objects that a fetch names. The caller has a slot.
 *
 * @throws MalformedGitRequest, RepositoryMissing, GitUnavailable
 */
export async function checkNames(
  dir: string,
  request: Readable,
  signal: AbortSignal | undefined,
): Promise<CheckedNames> {
  const wanted = new Set<string>()
  const claimed = new Set<string>()
  for await (const { word, id } of namedObjects(request)) (word === 'want' ? wanted : claimed).add(id)
  // A request for the names of refs names no object. One before a push may name only what the client has.
  if (wanted.size + claimed.size === 0) return { hidden: claimed }
  const options = { signal, queue: 'held' } as const
  const tips = await tipsOf(dir, options)
  const refused = await firstUnreachable(dir, wanted, tips, options)
  if (refused !== undefined) return { refused, hidden: claimed }
  return { hidden: await unreachedAmong(dir, claimed, tips, options) }
}
