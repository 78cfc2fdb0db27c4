/** Which commit a name means. */
import { isObjectId, refNameProblem } from './names.ts'
import { objectReaders } from './object-readers.ts'
import { resolveRef } from './refs.ts'
import { gitOutput } from './run.ts'

/** As short as git itself abbreviates. */
const SHORTEST_ID = 7

/**
 * The commit that a tag is at, or that has this id, whole or abbreviated to 7 digits and more; undefined when
 * there is none, or several. A tag goes before an id. Branches are not asked for.
 */
export async function commitOfTagOrId(dir: string, name: string): Promise<string | undefined> {
  const ref = `refs/tags/${name}`
  const tag = refNameProblem(ref) === undefined ? await resolveRef(dir, ref) : null
  const id = name.toLowerCase()
  const ids = [tag ?? [], isObjectId(id) ? id : []].flat()
  const commits = await objectReaders.headers(dir, ids, { peel: true })
  return commits.find((commit) => commit !== undefined)?.sha ?? (await commitOfShortId(dir, id))
}

/** By a process of its own: one that stays would not learn that a second object begins with these digits. */
async function commitOfShortId(dir: string, id: string): Promise<string | undefined> {
  if (!/^[0-9a-f]+$/.test(id) || id.length < SHORTEST_ID || id.length >= 40) return undefined
  const input = `${id}^{commit}\n`
  const output = await gitOutput(['cat-file', '--batch-check=%(objectname) %(objecttype)'], { dir, input })
  // `<what was asked> missing` and `… ambiguous` for what is no commit.
  return /^([0-9a-f]{40}) commit$/m.exec(output.toString('utf8'))?.[1]
}
