/**
 * Creates and moves single refs in git's own files, as gitrepository-layout(5) describes them, without a git process, whose
 * start takes longer than the rest of a move. Each function resolves to whether it succeeded. If not (the ref has another
 * value, its lock is taken, or a write fails), the caller uses git, which reports the error. A reader sees either the old
 * or the new value.
 */
import { randomUUID } from 'node:crypto'
import { link, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { flushNames, makeBelow } from '../../storage/disk.ts'
import { objectReaders } from '../objects/object-readers.ts'
import { isServersRef } from './names.ts'
import { readRefFiles } from './ref-files.ts'

/** Refs that must point at commits. */
const BRANCHES = 'refs/heads/'

/** Creates one of the server's own refs at an existing object. None of them is named like a directory of another one. */
export async function makeRefFile(dir: string, ref: string, sha: string): Promise<boolean> {
  if (!isServersRef(ref)) return false
  const path = join(dir, ref)
  // git ignores files whose names begin with a point, and `removeLeftovers` removes locks.
  const written = join(dirname(path), `.${randomUUID()}.lock`)
  try {
    const [object] = await objectReaders.headers(dir, [sha])
    const before = await readRefFiles(dir, [ref])
    if (object === undefined || before.get(ref) !== null) return false
    const made = await makeBelow(dir, dirname(ref))
    // Unlike a rename, the link fails when the ref was created meanwhile.
    await throughFile(written, sha, async () => {
      await link(written, path)
      await rm(written, { force: true }).catch(() => {})
    })
    await flushNames(made)
    return true
  } catch {
    return false
  }
}

/** Moves a ref from one object to another existing one. Holds git's own lock while it compares and moves. */
export async function moveRefFile(dir: string, ref: string, from: string, to: string): Promise<boolean> {
  const path = join(dir, ref)
  const lock = `${path}.lock`
  try {
    const [object] = await objectReaders.headers(dir, [to])
    if (object === undefined || (ref.startsWith(BRANCHES) && object.type !== 'commit')) return false
    await throughFile(lock, to, async () => {
      const now = await readRefFiles(dir, [ref])
      if (now.get(ref) !== from) throw new Error(`${ref} is not at ${from}`)
      await rename(lock, path)
    })
    return true
  } catch {
    return false
  }
}

/**
 * Writes the id to a new file, flushes it, and calls `put` to move it into place. On failure, removes the file and
 * throws.
 */
async function throughFile(path: string, sha: string, put: () => Promise<void>): Promise<void> {
  const file = await open(path, 'wx')
  try {
    try {
      await file.writeFile(`${sha}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
    await put()
  } catch (error) {
    await rm(path, { force: true }).catch(() => {})
    throw error
  }
}
