/**
 * Reads single refs from git's own files, without a process. The forms are those of gitrepository-layout(5)
 * and git-pack-refs(1); what is in any other form is left to git.
 */
import { access, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, isMissing } from '../disk.ts'
import { GitUnavailable, RepositoryMissing } from './errors.ts'
import { isObjectId } from './names.ts'

/** Larger lists of packed refs are left to git, which searches them without reading them whole. */
const MAX_PACKED_BYTES = 1024 * 1024
const ID_LENGTH = 40

/** What the file system says of a name that is none here, or a part of the path of others. */
const ABSENT = ['ENOENT', 'ENOTDIR', 'EISDIR', 'ENAMETOOLONG']

/**
 * Where each of these refs stands, whose names must be checked; null for one that does not exist. Refs that
 * only git can read are missing from the answer: symbolic ones, and those in a large list of packed refs.
 *
 * @throws RepositoryMissing, GitUnavailable when a file can't be read
 */
export async function readRefFiles(
  dir: string,
  refs: readonly string[],
): Promise<Map<string, string | null>> {
  const result = new Map<string, string | null>()
  const unknown: string[] = []
  for (const ref of refs) {
    const loose = await contentOf(join(dir, ref))
    if (loose === undefined) unknown.push(ref)
    else if (isObjectId(loose.trimEnd())) result.set(ref, loose.trimEnd())
  }
  if (unknown.length === 0) return result
  // After the loose refs, as git does: it packs a ref before it removes the file.
  const packed = await packedRefs(dir)
  if (packed === undefined) return result
  for (const ref of unknown) {
    // No name has a space in it.
    const at = packed.indexOf(` ${ref}\n`)
    const sha = packed.toString('latin1', Math.max(0, at - ID_LENGTH), Math.max(0, at))
    if (at === -1) result.set(ref, null)
    else if (isObjectId(sha)) result.set(ref, sha)
  }
  return result
}

/** Empty when no refs are packed, undefined when there are too many. */
async function packedRefs(dir: string): Promise<Buffer | undefined> {
  const path = join(dir, 'packed-refs')
  try {
    const { size } = await stat(path)
    return size > MAX_PACKED_BYTES ? undefined : await readFile(path)
  } catch (error) {
    if (!isMissing(error)) throw unreadable(path, error)
  }
  await access(join(dir, 'HEAD')).catch((error: unknown) => {
    throw isMissing(error) ? new RepositoryMissing(`no repository at ${dir}`) : unreadable(dir, error)
  })
  return Buffer.alloc(0)
}

async function contentOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'latin1')
  } catch (error) {
    if (ABSENT.some((code) => hasCode(error, code))) return undefined
    throw unreadable(path, error)
  }
}

function unreadable(path: string, cause: unknown): GitUnavailable {
  return new GitUnavailable(`${path} can't be read`, { cause })
}
