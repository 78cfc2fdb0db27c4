/** Checks which objects a fetch may have. Version 2 of the protocol serves every object that the repository has. */
import type { Readable } from 'node:stream'
import { firstUnreachable, type Tips, tipsOf } from './reachable.ts'
import { wantedIds } from './upload-request.ts'

/**
 * The id of an object that the fetch wants and that no ref reaches; undefined when all may be served. The caller has
 * a slot. @throws MalformedGitRequest, RepositoryMissing, GitUnavailable
 */
export async function unreachableWant(
  dir: string,
  request: Readable,
  { signal, client }: { signal: AbortSignal | undefined; client: string },
): Promise<string | undefined> {
  let tips: Tips | undefined
  const others = new Set<string>()
  for await (const id of wantedIds(request, client)) {
    // Asking only for the names of refs wants nothing.
    tips ??= await tipsOf(dir, { signal, queue: 'held' })
    if (!tips.ids.has(id)) others.add(id)
  }
  if (tips === undefined || others.size === 0) return undefined
  return await firstUnreachable(dir, others, tips, { signal, queue: 'held' })
}
