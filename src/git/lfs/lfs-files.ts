/**
 * Large files (git LFS) of a bare repository, in `lfs/objects/ab/cd/<oid>` below it, as git-lfs stores them. So they are
 * deleted with the repository, and count for its size. A file is complete, verified and flushed before it has its name, and
 * it never changes.
 */
import { createHash, randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { copyFile, type FileHandle, link, open, rename, rm, stat, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { forEachConcurrently } from '../../concurrency/for-each-concurrently.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import {
  flush,
  flushNames,
  hasCode,
  isAbandoned,
  isMissing,
  makeBelow,
  namesIn,
  unlessMissing,
  writtenAt,
} from '../../storage/disk.ts'
import { RepositoryMissing } from '../process/errors.ts'

const OID = /^[0-9a-f]{64}$/
const PREFIX = /^[0-9a-f]{2}$/
const OBJECTS = join('lfs', 'objects')
const INCOMING = join('lfs', 'incoming')
/** A huge file is flushed after each 64 MB, so that it does not stall the disk at its end. */
const FLUSH_EVERY = 64 * 1024 * 1024

/** Whether a text is a SHA-256 as pointers name it. */
export const isOid = (text: string) => OID.test(text)

/** The path of an object below its repository. */
export function lfsPath(oid: string): string {
  if (!isOid(oid)) throw new TypeError(`not the id of an LFS object: ${JSON.stringify(oid)}`)
  return join(OBJECTS, oid.slice(0, 2), oid.slice(2, 4), oid)
}

/** Whether the object is there with this size. */
export async function hasLfsFile(
  dir: string,
  { oid, size }: { oid: string; size: number },
): Promise<boolean> {
  return (await unlessMissing(stat(join(dir, lfsPath(oid)))))?.size === size
}

/**
 * Writes a stream to a temporary file, verifies it, and renames it. The file is on disk when this resolves. Concurrent
 * uploads of an object write the same bytes. On failure, removes the temporary file.
 * @throws Refused (unprocessable) when the bytes are not the object, RepositoryMissing, and the errors of the source
 */
export async function receiveLfsFile(
  dir: string,
  object: { oid: string; size: number },
  source: AsyncIterable<Buffer>,
): Promise<void> {
  const incoming = join(dir, INCOMING)
  await makeBelow(dir, INCOMING).catch(asRepositoryMissing(dir))
  const draft = join(incoming, randomUUID())
  const handle = await open(draft, 'wx').catch(asRepositoryMissing(dir))
  try {
    try {
      await write(handle, source, object)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await putInPlace(dir, draft, object.oid)
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined)
    throw error
  }
}

async function write(
  handle: FileHandle,
  source: AsyncIterable<Buffer>,
  { oid, size }: { oid: string; size: number },
): Promise<void> {
  const hash = createHash('sha256')
  let written = 0
  let unflushed = 0
  for await (const chunk of source) {
    if (written + chunk.length > size)
      throw new Refused(refuse.unprocessable(`size: there are more than ${size} bytes`))
    hash.update(chunk)
    await handle.writeFile(chunk)
    written += chunk.length
    unflushed += chunk.length
    if (unflushed < FLUSH_EVERY) continue
    await handle.datasync()
    unflushed = 0
  }
  if (written < size)
    throw new Refused(refuse.unprocessable(`size: there are only ${written} of ${size} bytes`))
  if (hash.digest('hex') !== oid)
    throw new Refused(refuse.unprocessable('oid: it is not the SHA-256 of these bytes'))
}

async function putInPlace(dir: string, draft: string, oid: string): Promise<void> {
  const path = lfsPath(oid)
  const made = await makeBelow(dir, dirname(path)).catch(asRepositoryMissing(dir))
  await rename(draft, join(dir, path)).catch(asRepositoryMissing(dir))
  await flush(join(dir, dirname(path)))
  await flushNames(made)
}

const asRepositoryMissing =
  (dir: string) =>
  (error: unknown): never => {
    throw isMissing(error) ? new RepositoryMissing(`no repository at ${dir}`) : error
  }

/**
 * Shares objects of another repository: hard links, or copies where the file system can't link. Resolves to the shared
 * objects, without those that the other repository has lost.
 */
export async function shareLfsFiles<O extends { oid: string; size: number }>(
  fromDir: string,
  toDir: string,
  objects: readonly O[],
): Promise<O[]> {
  const shared = new Set<O>()
  const created = new Set<string>()
  const changed = new Set<string>()
  await forEachConcurrently(objects, async (object) => {
    const path = lfsPath(object.oid)
    if (!(await hasLfsFile(fromDir, object))) return
    for (const directory of await makeBelow(toDir, dirname(path)).catch(asRepositoryMissing(toDir)))
      created.add(directory)
    changed.add(join(toDir, dirname(path)))
    if (await linkOrCopy(join(fromDir, path), toDir, object.oid)) shared.add(object)
  })
  for (const directory of changed) await flush(directory)
  await flushNames(created)
  return objects.filter((object) => shared.has(object))
}

/** Resolves to false when the file no longer exists. */
async function linkOrCopy(from: string, toDir: string, oid: string): Promise<boolean> {
  try {
    await link(from, join(toDir, lfsPath(oid)))
    return true
  } catch (error) {
    if (isMissing(error)) return false
    // A file that was removed meanwhile is copied instead.
    if (hasCode(error, 'EEXIST') && (await renewTime(join(toDir, lfsPath(oid))))) return true
  }
  // The file system is another one, has no links, or allows no more links to this file.
  await makeBelow(toDir, INCOMING).catch(asRepositoryMissing(toDir))
  const draft = join(toDir, INCOMING, randomUUID())
  const copied = await unlessMissing(copyFile(from, draft, constants.COPYFILE_FICLONE).then(() => true))
  if (copied === undefined) return false
  await flush(draft)
  await putInPlace(toDir, draft, oid)
  return true
}

/** Updates the modification time of a file, so that it does not count as orphaned. Resolves to false for a missing file. */
async function renewTime(path: string): Promise<boolean> {
  const found = await unlessMissing(stat(path))
  const renewed = found && (await unlessMissing(utimes(path, found.atime, found.mtime).then(() => true)))
  return renewed ?? false
}

/** The ids of all objects of a repository, by directory (`ab/cd`). */
export async function* lfsDirectories(dir: string): AsyncGenerator<{ directory: string; oids: string[] }> {
  const objects = join(dir, OBJECTS)
  for (const outer of await namesIn(objects)) {
    if (!PREFIX.test(outer)) continue
    for (const inner of await namesIn(join(objects, outer))) {
      const directory = join(OBJECTS, outer, inner)
      const oids = (await namesIn(join(dir, directory))).filter(
        (name) => name.startsWith(outer + inner) && isOid(name),
      )
      if (oids.length > 0) yield { directory, oids }
    }
  }
}

/**
 * Removes leftovers of crashes: abandoned uploads, and objects that are not `named`. Removes only files that are too
 * old to be in use; and no objects when the repository has none of `named`, because the log may be of another
 * installation. Resolves to the number of removed objects.
 */
export async function removeUnknownLfsFiles(dir: string, named: ReadonlySet<string>): Promise<number> {
  for (const name of await namesIn(join(dir, INCOMING))) {
    const path = join(dir, INCOMING, name)
    if (isAbandoned((await writtenAt(path)) ?? Date.now())) await rm(path, { force: true })
  }
  const unknown: string[] = []
  let known = 0
  for await (const { directory, oids } of lfsDirectories(dir)) {
    for (const oid of oids) {
      if (named.has(oid)) known += 1
      else unknown.push(join(dir, directory, oid))
    }
  }
  let removed = 0
  for (const path of known === 0 ? [] : unknown) {
    if (!isAbandoned((await unlessMissing(stat(path)))?.ctimeMs ?? Date.now())) continue
    await rm(path, { force: true })
    removed += 1
  }
  return removed
}
