/** Finds without git what a push of many refs cannot have: git looks for each of them with a process of its own. */
import { objectReaders } from '../objects/object-readers.ts'
import type { RefChange } from '../refs/refs.ts'

/** Fewer refs are left to git. */
const MANY = 50
/** So many are asked for at once. */
const PART = 1000

/**
 * A new object of a ref that the push cannot bring: more of them are absent from the repository than it brings objects
 * (`sent`). Undefined when there is none, when it is not easy to tell, and for few refs.
 *
 * @throws GitUnavailable, GitFailed, RepositoryMissing
 */
export async function findMissingObject(
  dir: string,
  commands: readonly RefChange[],
  sent: number,
): Promise<string | undefined> {
  if (commands.length < MANY) return undefined
  const ids = [...new Set(commands.flatMap(({ to }) => to ?? []))]
  if (ids.length <= sent) return undefined
  let absent = 0
  for (let i = 0; i < ids.length; i += PART) {
    const part = ids.slice(i, i + PART)
    for (const [place, header] of (await objectReaders.headers(dir, part)).entries()) {
      if (header === undefined) absent += 1
      if (absent > sent) return part[place]
    }
  }
  return undefined
}
