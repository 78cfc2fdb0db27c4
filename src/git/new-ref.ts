/** Makes refs of pull requests in git's own files, as gitrepository-layout(5) describes them. */
import { randomUUID } from 'node:crypto'
import { link, mkdir, open, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { objectReaders } from './object-readers.ts'
import { readRefFiles } from './ref-files.ts'

/** Only the server makes refs here, so no ref is named like a directory of another one. */
const PULLS = 'refs/pull/'

/**
 * Makes a ref of a pull request at an existing object, without a git process: to start one takes longer than all else
 * that opens a pull request. Resolves to whether it did. When not (the ref is there, or anything fails), git must be
 * asked, which says what is wrong. Whoever reads the ref finds either nothing or all of it.
 */
export async function makeRefFile(dir: string, ref: string, sha: string): Promise<boolean> {
  if (!ref.startsWith(PULLS)) return false
  const path = join(dir, ref)
  // git reads no file as a ref whose name begins with a point, and `removeLeftovers` removes locks.
  const written = join(dirname(path), `.${randomUUID()}.lock`)
  try {
    const [object] = await objectReaders.headers(dir, [sha])
    const before = await readRefFiles(dir, [ref])
    if (object === undefined || before.get(ref) !== null) return false
    await mkdir(dirname(path), { recursive: true })
    const file = await open(written, 'wx')
    try {
      await file.writeFile(`${sha}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
    // Unlike a rename, it fails when the ref was made meanwhile.
    await link(written, path)
    return true
  } catch {
    return false
  } finally {
    await rm(written, { force: true }).catch(() => {})
  }
}
