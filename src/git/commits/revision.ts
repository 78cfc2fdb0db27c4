/** Finds the commit that a name means. */

import { objectReaders } from '../objects/object-readers.ts'
import { gitOutput } from '../process/run.ts'
import { isObjectId, refNameProblem } from '../refs/names.ts'
import { type RefSource, readRef } from '../refs/ref-source.ts'

/** Length of the shortest abbreviation that git prints. */
const SHORTEST_ID = 7

/**
 * Returns the id of the commit with this tag or id (whole, or abbreviated to at least 7 digits). A tag wins over an id.
 * Branches are not searched. Undefined for an unknown or ambiguous name.
 */
export async function commitOfTagOrId(source: RefSource, name: string): Promise<string | undefined> {
  const { dir } = source
  const ref = `refs/tags/${name}`
  const tag = refNameProblem(ref) === undefined ? await readRef(source, ref) : null
  const id = name.toLowerCase()
  const ids = [tag ?? [], isObjectId(id) ? id : []].flat()
  const commits = await objectReaders.headers(dir, ids, { peel: true })
  const found = commits.find((commit) => commit !== undefined)
  if (found !== undefined) return found.sha
  for (const one of ids) await source.onUnresolved?.(one)
  return await commitOfShortId(dir, id)
}

/** Starts a new process: a long-lived one doesn't notice a second object that begins with the same digits. */
async function commitOfShortId(dir: string, id: string): Promise<string | undefined> {
  if (!/^[0-9a-f]+$/.test(id) || id.length < SHORTEST_ID || id.length >= 40) return undefined
  const input = `${id}^{commit}\n`
  const output = await gitOutput(['cat-file', '--batch-check=%(objectname) %(objecttype)'], {
    queue: 'query',
    dir,
    input,
  })
  // git answers `<name> missing` or `<name> ambiguous` when there is not exactly one commit.
  return /^([0-9a-f]{40}) commit$/m.exec(output.toString('utf8'))?.[1]
}
