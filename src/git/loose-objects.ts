/** Writes objects as loose files in git's format, without a git process. */
import { createHash, randomUUID } from 'node:crypto'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { deflate } from 'node:zlib'
import { flush, hasCode, isMissing } from '../disk.ts'
import { GitUnavailable, RepositoryMissing } from './errors.ts'

const deflated = promisify(deflate)

export type ObjectType = 'commit' | 'tree' | 'blob' | 'tag'

/** The id of an object with this content. */
export function objectId(type: ObjectType, content: Uint8Array): string {
  return createHash('sha1').update(`${type} ${content.length}\0`).update(content).digest('hex')
}

/** Writes an object, without flushing, into a directory `objects` that nobody reads yet. Returns its id. */
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
 *
 * @throws RepositoryMissing, GitUnavailable when it can't be written
 */
export async function storeObject(dir: string, type: ObjectType, content: Uint8Array): Promise<string> {
  const sha = objectId(type, content)
  const objects = join(dir, 'objects')
  const fan = join(objects, sha.slice(0, 2))
  // A crash leaves this file; git removes old files with names of this form.
  const draft = join(fan, `tmp_obj_${randomUUID()}`)
  try {
    const isNew = await makeDirectory(fan)
    await writeFile(draft, await fileContent(type, content), { mode: 0o444, flag: 'wx', flush: true })
    await rename(draft, join(fan, sha.slice(2)))
    await flush(fan)
    if (isNew) await flush(objects)
  } catch (cause) {
    await rm(draft, { force: true }).catch(() => undefined)
    if (isMissing(cause)) throw new RepositoryMissing(`no repository at ${dir}`)
    throw new GitUnavailable(`the ${type} ${sha} can't be written`, { cause })
  }
  return sha
}

/** Returns whether the directory is new. Its parent must exist, so that a deleted repository doesn't reappear. */
async function makeDirectory(path: string): Promise<boolean> {
  try {
    await mkdir(path)
    return true
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false
    throw error
  }
}

function fileContent(type: ObjectType, content: Uint8Array): Promise<Buffer> {
  return deflated(Buffer.concat([Buffer.from(`${type} ${content.length}\0`), content]))
}
