/** Checks which objects a fetch may have. Version 2 of the protocol serves every object that the repository has. */
import type { Readable } from 'node:stream'
import { firstUnreachable, tipsOf, unreachedAmong } from '../commits/reachable.ts'
import { namedObjects } from './upload-request.ts'

export interface CheckedNames {
  /** The id of an object that the fetch wants and that no ref reaches; undefined when all may be served. */
  refused?: string
  /**
   * Unreachable objects of the repository that the client claims to have. Their lines are hidden from git: it would send
   * the parents of a shallow commit, and reveal which of the client's commits exist here.
   */
  hidden: ReadonlySet<string>
}

/**
 * Checks all objects that a fetch names. The caller has a slot.
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
  // A request for refs names no objects. One before a push may only name objects of the client.
  if (wanted.size + claimed.size === 0) return { hidden: claimed }
  const options = { signal, queue: 'held' } as const
  const tips = await tipsOf(dir, options)
  const refused = await firstUnreachable(dir, wanted, tips, options)
  if (refused !== undefined) return { refused, hidden: claimed }
  return { hidden: await unreachedAmong(dir, claimed, tips, options) }
}
