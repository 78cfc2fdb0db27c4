/**
 * Creates many refs at once in git's file of packed refs, in the format of git-pack-refs(1) and under git's own lock. git
 * itself creates and syncs a file for each new ref: 10,000 of them took a minute. One rename puts the file of packed refs
 * in place: a crash leaves all of the new refs or none.
 */
import { open, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { forEachInSlices, timeSlices } from '../../concurrency/event-loop.ts'
import { filesBelow, hasCode, unlessMissing } from '../../storage/disk.ts'
import { objectReaders } from '../objects/object-readers.ts'

export interface NewRef {
  ref: string
  sha: string
}

/** Maximum size of a file, in bytes. Larger ones are left to git, which does not hold them in memory. */
const MAX_BYTES = 8 * 1024 * 1024
/** git's own timeout for this lock, in milliseconds. */
const LOCK_MS = 10_000
const LOCK_PAUSE_MS = 50
/**
 * git requires exactly this header before it relies on the order of the lines, and on tags without a line `^ID` pointing at
 * commits.
 */
const HEADER = '# pack-refs with: peeled fully-peeled sorted \n'
const LINE = /^(?:[0-9a-f]{40} (refs\/[^ \n]+)|\^[0-9a-f]{40})\n$/
/** Refs that must point at commits. */
const BRANCHES = 'refs/heads/'
const NONE: ReadonlySet<string> = new Set()

/** A new ref, and its lines in the file. Names are bytes in latin1: git sorts them by their bytes. */
interface Addition {
  ref: string
  name: string
  lines: string
}

/**
 * Creates new refs at existing objects. Resolves to the created ones; the caller uses git for the others, which reports the
 * error. Creates none when a name is taken or conflicts with another one, when the lock is taken, when git writes the file
 * in another format, or when a write fails. `all`: creates all of them or none. Call it under the lock of the repository's
 * refs. `flushRefs` syncs the rename.
 */
export async function makePackedRefs(
  dir: string,
  refs: readonly NewRef[],
  { all, lockMs = LOCK_MS }: { all: boolean; lockMs?: number },
): Promise<ReadonlySet<string>> {
  try {
    const added = await additions(dir, refs)
    if (added.length === 0 || (all && added.length < refs.length)) return NONE
    await inLock(join(dir, 'packed-refs.lock'), lockMs, async () => {
      const text = await withAdded(dir, added)
      const written = join(dir, 'packed-refs.new')
      try {
        await writeFlushed(written, text)
        await rename(written, join(dir, 'packed-refs'))
      } catch (error) {
        await rm(written, { force: true }).catch(() => undefined)
        throw error
      }
    })
    return new Set(added.map(({ ref }) => ref))
  } catch {
    return NONE
  }
}

/**
 * Returns the lines of the refs that can be created, sorted. Leaves out branches that do not point at a commit, and tags of
 * other objects.
 */
async function additions(dir: string, refs: readonly NewRef[]): Promise<Addition[]> {
  const ids = [...new Set(refs.map(({ sha }) => sha))]
  const types = new Map((await objectReaders.headers(dir, ids)).map((header, i) => [ids[i], header?.type]))
  const tags = ids.filter((id) => types.get(id) === 'tag')
  const peeled = await objectReaders.headers(dir, tags, { peel: true })
  const commitOf = new Map(peeled.map((header, i) => [tags[i], header?.sha]))
  const added: Addition[] = []
  await forEachInSlices(refs, ({ ref, sha }) => {
    const type = types.get(sha)
    if (type === undefined || (type !== 'commit' && ref.startsWith(BRANCHES))) return
    const commit = commitOf.get(sha)
    if (type === 'tag' && commit === undefined) return
    const name = Buffer.from(ref).toString('latin1')
    added.push({ ref, name, lines: `${sha} ${name}\n${commit === undefined ? '' : `^${commit}\n`}` })
  })
  return added.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Returns the file of packed refs with the additions. @throws when a name is taken, or the file has another format */
async function withAdded(dir: string, added: readonly Addition[]): Promise<string> {
  const names = new Set(added.map(({ name }) => name))
  const directories = new Set<string>()
  await forEachInSlices(names, (name) => {
    for (const above of pathsAbove(name)) directories.add(above)
  })
  /** Throws when a name is taken, or is a directory of another name. */
  const checkFree = (name: string, isNew = false) => {
    const isTaken = (!isNew && names.has(name)) || directories.has(name)
    if (isTaken || pathsAbove(name).some((above) => names.has(above)))
      throw new Error(`${name} is in the way`)
  }
  await forEachInSlices(names, (name) => checkFree(name, true))
  const slices = timeSlices()
  // Only the kinds of refs that are created: each has its own directory.
  for (const kind of new Set(added.map(({ name }) => name.split('/', 2).join('/')))) {
    for await (const path of filesBelow(join(dir, Buffer.from(kind, 'latin1').toString()))) {
      const name = Buffer.from(path.slice(dir.length + 1)).toString('latin1')
      // A lock conflicts like its ref.
      checkFree(name.replace(/\.lock$/, ''))
      if (slices.isOver()) await slices.next()
    }
  }
  const packed = await packedRefs(dir)
  const result = [HEADER]
  let next = 0
  for (let at = HEADER.length; at < packed.length; ) {
    const end = packed.indexOf('\n', at) + 1
    const line = packed.slice(at, end)
    const found = LINE.exec(line)
    if (found === null) throw new Error('packed-refs has a malformed line')
    const [, name] = found
    if (name !== undefined) {
      checkFree(name)
      for (let one = added[next]; one !== undefined && one.name < name; one = added[next]) {
        result.push(one.lines)
        next += 1
      }
    }
    result.push(line)
    at = end
    if (slices.isOver()) await slices.next()
  }
  for (const { lines } of added.slice(next)) result.push(lines)
  return result.join('')
}

/** The directories of a ref, from the longest to the shortest: for `refs/heads/a/b`, `refs/heads/a` is the first. */
function pathsAbove(name: string): string[] {
  const paths: string[] = []
  for (let end = name.lastIndexOf('/'); end > 0; end = name.lastIndexOf('/', end - 1))
    paths.push(name.slice(0, end))
  return paths
}

/** Returns the file's content, as bytes in latin1; only a header for a missing file. @throws for another format */
async function packedRefs(dir: string): Promise<string> {
  const path = join(dir, 'packed-refs')
  const found = await unlessMissing(stat(path))
  if (found === undefined) return HEADER
  if (found.size > MAX_BYTES) throw new Error('packed-refs is large')
  const text = await readFile(path, 'latin1')
  if (!text.startsWith(HEADER)) throw new Error('packed-refs is of another git')
  return text
}

async function writeFlushed(path: string, text: string): Promise<void> {
  // The owner of the lock owns this file, too: an older one is a leftover of a crash.
  const file = await open(path, 'w')
  try {
    await file.writeFile(text, 'latin1')
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Runs the work under the lock of the packed refs. @throws when the lock is taken for `waitMs` milliseconds */
async function inLock(path: string, waitMs: number, work: () => Promise<void>): Promise<void> {
  const end = performance.now() + waitMs
  for (;;) {
    try {
      await (await open(path, 'wx')).close()
      break
    } catch (error) {
      if (!hasCode(error, 'EEXIST') || performance.now() >= end) throw error
      await pause(LOCK_PAUSE_MS)
    }
  }
  try {
    await work()
  } finally {
    // Recovery removes a remaining file.
    await rm(path, { force: true }).catch(() => undefined)
  }
}
