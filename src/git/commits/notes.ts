/** Reads the notes that `git notes` keeps beside commits. */

import { objectReaders } from '../objects/object-readers.ts'
import { type GitOptions, gitOutput } from '../process/run.ts'
import { kindOf } from '../trees/tree-entries.ts'
import { readTree } from '../trees/trees.ts'
import { commitFacts } from './commits.ts'

/** The ref that `git notes` uses by default. */
export const NOTES = 'refs/notes/commits'

export interface Note {
  message: Buffer
  /** The id of the commit that wrote the note. */
  commit: string
}

/** Maximum size of a note, in bytes. Larger ones count as missing. */
const MAX_NOTE_BYTES = 1024 * 1024

/**
 * Returns the note of a commit; undefined without one. Notes are files named by the id of their commit; with many
 * notes, the first digits are folders. `tip`: the commit of all notes.
 * @throws the errors of `git`
 */
export async function noteOf(
  dir: string,
  tip: string,
  sha: string,
  options: Pick<GitOptions, 'queue' | 'timeout' | 'signal'>,
): Promise<Note | undefined> {
  const root = (await commitFacts(dir, [tip])).get(tip)?.tree
  if (root === undefined) return undefined
  const found = await noteIn(dir, root, sha, '')
  if (found === undefined) return undefined
  const [header] = await objectReaders.headers(dir, [found.blob])
  if (header?.type !== 'blob' || header.size > MAX_NOTE_BYTES) return undefined
  let message: Buffer | undefined
  await objectReaders.contents(dir, [header], (_, content) => {
    message = content
  })
  const args = ['--literal-pathspecs', 'rev-list', '--max-count=1', tip, '--', found.path]
  const commit = (await gitOutput(args, { ...options, dir })).toString('latin1').trim()
  return message && { message, commit: commit === '' ? tip : commit }
}

/** Looks up the remaining digits of an id (`rest`) in a folder; `path` has the digits before them. */
async function noteIn(
  dir: string,
  tree: string,
  rest: string,
  path: string,
): Promise<{ blob: string; path: string } | undefined> {
  const digits = rest.slice(0, 2)
  const entries = await (await readTree(dir, tree)).named([rest, digits])
  const file = entries.get(rest)
  if (file !== undefined && kindOf(file) === 'file') return { blob: file.id, path: path + rest }
  const folder = entries.get(digits)
  if (folder === undefined || kindOf(folder) !== 'dir') return undefined
  return await noteIn(dir, folder.id, rest.slice(2), `${path}${digits}/`)
}
