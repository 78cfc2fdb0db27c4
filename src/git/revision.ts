/** Which commit a name means. */
import { isObjectId, refNameProblem } from './names.ts'
import { gitOutput } from './run.ts'

/** As short as git itself abbreviates. */
const SHORTEST_ID = 7

/**
 * The commit that a tag is at, or that has this id, whole or abbreviated to 7 digits and more; undefined when
 * there is none, or several. A tag goes before an id. Branches are not asked for.
 */
export async function commitOfTagOrId(dir: string, name: string): Promise<string | undefined> {
  const asked: string[] = []
  if (refNameProblem(`refs/tags/${name}`) === undefined) asked.push(`refs/tags/${name}^{commit}`)
  const id = name.toLowerCase()
  if (isObjectId(id) || (/^[0-9a-f]+$/.test(id) && id.length >= SHORTEST_ID && id.length < 40)) {
    asked.push(`${id}^{commit}`)
  }
  if (asked.length === 0) return undefined
  const input = asked.map((line) => `${line}\n`).join('')
  const output = await gitOutput(['cat-file', '--batch-check=%(objectname) %(objecttype)'], { dir, input })
  const answers = output.toString('utf8').split('\n')
  // `<what was asked> missing` and `… ambiguous` for what is no commit.
  return answers.find((answer) => /^[0-9a-f]{40} commit$/.test(answer))?.slice(0, 40)
}
