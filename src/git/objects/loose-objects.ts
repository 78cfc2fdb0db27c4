/** Writes objects as loose files in git's format, without a git process. */
import { createHash, randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setImmediate as nextIteration } from 'node:timers/promises'
import { promisify } from 'node:util'
import { createDeflate, deflate } from 'node:zlib'
import { flush, flushNames, hasCode, isMissing, makeDirectory } from '../../storage/disk.ts'
import { GitUnavailable, RepositoryMissing } from '../process/errors.ts'

const deflated = promisify(deflate)

export type ObjectType = 'commit' | 'tree' | 'blob' | 'tag'

/** The id of an object with this content. */
export function objectId(type: ObjectType, content: Uint8Array): string {
  return createHash('sha1').update(`${type} ${content.length}\0`).update(content).digest('hex')
}

/** Writes an object, without flushing, into a directory `objects` without readers. Returns its id. */
export async function writeObject(objects: string, type: ObjectType, content: Uint8Array): Promise<string> {
  const sha = objectId(type, content)
  const fan = join(objects, sha.slice(0, 2))
  await mkdir(fan, { recursive: true })
  const file = join(fan, sha.slice(2))
  await writeFile(file, await fileContent(type, content), { mode: 0o444, flag: 'wx' }).catch(
    (error: unknown) => {
      if (!hasCode(error, 'EEXIST')) throw error
    },
  )
  return sha
}

/**
 * Stores an object in the repository, as `git hash-object -w` does. It is on disk when this resolves. The objects
 * that it refers to must exist. Returns its id.
 * @throws RepositoryMissing, GitUnavailable when it can't be written
 */
export async function storeObject(dir: string, type: ObjectType, content: Uint8Array): Promise<string> {
  const sha = objectId(type, content)
  await place(dir, type, sha, async (draft) =>
    writeFile(draft, await fileContent(type, content), { mode: 0o444, flag: 'wx', flush: true }),
  )
  return sha
}

/** Number of bytes hashed per iteration of the event loop. */
const SLICE_BYTES = 256 * 1024

/**
 * Stores a blob whose content is in parts, as `storeObject` does. It may be large: hashing does not block the event
 * loop.
 * @throws RepositoryMissing, GitUnavailable when it can't be written
 */
export async function storeBlob(dir: string, parts: readonly Buffer[]): Promise<string> {
  const size = parts.reduce((sum, { length }) => sum + length, 0)
  if (size <= SLICE_BYTES) return storeObject(dir, 'blob', Buffer.concat(parts))
  const head = Buffer.from(`blob ${size}\0`)
  const hash = createHash('sha1').update(head)
  let hashed = 0
  for (const part of parts) {
    hash.update(part)
    hashed += part.length
    if (hashed < SLICE_BYTES) continue
    hashed = 0
    await nextIteration()
  }
  const sha = hash.digest('hex')
  await place(dir, 'blob', sha, (draft) =>
    pipeline(
      [head, ...parts],
      createDeflate(),
      createWriteStream(draft, { mode: 0o444, flags: 'wx', flush: true }),
    ),
  )
  return sha
}

/** Puts the file of an object in place. `write` writes the draft and flushes it. */
async function place(
  dir: string,
  type: ObjectType,
  sha: string,
  write: (draft: string) => Promise<void>,
): Promise<void> {
  const fan = join(dir, 'objects', sha.slice(0, 2))
  // A crash leaves this file; git removes old files with names of this form.
  const draft = join(fan, `tmp_obj_${randomUUID()}`)
  try {
    const isNew = await intoFanOut(fan, () => write(draft))
    await rename(draft, join(fan, sha.slice(2)))
    await flush(fan)
    if (isNew) await flushNames([fan])
  } catch (cause) {
    await rm(draft, { force: true }).catch(() => undefined)
    if (isMissing(cause)) throw new RepositoryMissing(`no repository at ${dir}`)
    throw new GitUnavailable(`the ${type} ${sha} can't be written`, { cause })
  }
}

/** Maximum number of attempts when a repack removes the directory before it has a file. */
const MAX_ATTEMPTS = 10

/**
 * Creates the directory of objects with the same first digits, and runs `put`, which puts a file there. A repack removes an
 * empty directory at any time: then both run again. Returns whether the name of the directory may not be on disk yet.
 */
export async function intoFanOut(fan: string, put: () => Promise<void>): Promise<boolean> {
  for (let left = MAX_ATTEMPTS - 1; ; left -= 1) {
    const isNew = await makeDirectory(fan)
    try {
      await put()
      return isNew
    } catch (error) {
      if (left === 0 || !isMissing(error)) throw error
    }
  }
}

function fileContent(type: ObjectType, content: Uint8Array): Promise<Buffer> {
  return deflated(Buffer.concat([Buffer.from(`${type} ${content.length}\0`), content]))
}
