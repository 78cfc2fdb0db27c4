/** Finds missing objects of a push of many refs without git, which would start a process for each ref. */
import { objectReaders } from '../objects/object-readers.ts'
import type { RefChange } from '../refs/refs.ts'

/** Minimum number of refs; git checks fewer itself. */
const MIN_REFS = 50
/** Batch size of object reads. */
const BATCH = 1000

/**
 * Returns a new object of a ref that the push cannot bring, because more objects are absent from the repository than the
 * push has (`sent`); undefined for fewer refs, and when the count does not show it.
 * @throws GitUnavailable, GitFailed, RepositoryMissing
 */
export async function findMissingObject(
  dir: string,
  commands: readonly RefChange[],
  sent: number,
): Promise<string | undefined> {
  if (commands.length < MIN_REFS) return undefined
  const ids = [...new Set(commands.flatMap(({ to }) => to ?? []))]
  if (ids.length <= sent) return undefined
  let absent = 0
  for (let i = 0; i < ids.length; i += BATCH) {
    const batch = ids.slice(i, i + BATCH)
    for (const [place, header] of (await objectReaders.headers(dir, batch)).entries()) {
      if (header === undefined) absent += 1
      if (absent > sent) return batch[place]
    }
  }
  return undefined
}
