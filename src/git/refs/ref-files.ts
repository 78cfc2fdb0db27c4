/**
 * Reads single refs from git's own files, without a git process. Knows the formats of gitrepository-layout(5) and
 * git-pack-refs(1). Leaves all other formats to git.
 */
import { access, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, isMissing } from '../../storage/disk.ts'
import { GitUnavailable, RepositoryMissing } from '../process/errors.ts'
import { isObjectId, refNameProblem } from './names.ts'

/** Maximum size of the packed refs read here, in bytes. git searches larger files without reading all of them. */
const MAX_PACKED_BYTES = 1024 * 1024
const ID_LENGTH = 40

/** The error codes for a ref that does not exist, or whose name is a part of the paths of other refs. */
const ABSENT = ['ENOENT', 'ENOTDIR', 'EISDIR', 'ENAMETOOLONG']

/**
 * Returns the object ids of these refs, whose names must be valid; null for a missing ref. Leaves out refs that only
 * git can read: symbolic refs, and refs in a large file of packed refs.
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
  // Read packed refs after loose refs, because git packs a ref before it removes the loose file.
  const packed = await packedRefs(dir)
  if (packed === undefined) return result
  for (const ref of unknown) {
    // Names of refs contain no spaces.
    const at = packed.indexOf(` ${ref}\n`)
    const sha = packed.toString('latin1', Math.max(0, at - ID_LENGTH), Math.max(0, at))
    if (at === -1) result.set(ref, null)
    else if (isObjectId(sha)) result.set(ref, sha)
  }
  return result
}

/**
 * Returns the full name of the default branch, which need not exist; undefined when only git can read it.
 * @throws GitUnavailable
 */
export async function defaultBranchRef(dir: string): Promise<string | undefined> {
  const [, ref] = /^ref: (refs\/heads\/.+)\n$/.exec((await contentOf(join(dir, 'HEAD'))) ?? '') ?? []
  return ref !== undefined && refNameProblem(ref) === undefined ? ref : undefined
}

/** Returns the content of `packed-refs`; empty when there are no packed refs, undefined when the file is too large. */
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
