/**
 * Copies a bare repository while it is in use. Objects are copied from git, which only adds them. Refs are written from
 * the log.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { forEachConcurrently } from '../../concurrency/for-each-concurrently.ts'
import { lfsDirectories, lfsPath } from '../../git/lfs/lfs-files.ts'
import { takeObjectFiles } from '../../git/objects/object-files.ts'
import { git, gitOutput } from '../../git/process/run.ts'
import { exists, isMissing, namesIn } from '../../storage/disk.ts'
import type { CopiedFile, FileCopier } from './file-copier.ts'
import type { NamedRepository } from './log-references.ts'

/** Timeout of a check, in milliseconds. Reading every object of a large repository takes hours. */
const CHECK_TIMEOUT = 24 * 3600_000

/** Directories that git requires in a repository, even when they are empty. */
export const REPOSITORY_DIRECTORIES = ['objects/pack', 'refs/heads', 'refs/tags']
/** Files that are written again each time the backup copies the log. */
export const REPOSITORY_FILES = ['HEAD', 'config', 'packed-refs']

/**
 * Copies the objects that the copy in `to` lacks. Resolves to false when the repository was deleted or is being
 * deleted; then the copy may lack objects.
 */
export async function copyObjects(
  from: string,
  to: string,
  copy: FileCopier,
  copied: (path: string, file: CopiedFile) => void,
): Promise<boolean> {
  const objects = join(from, 'objects')
  const toObjects = join(to, 'objects')
  await takeObjectFiles(objects, async (directory, names) => {
    const known = new Set(await namesIn(join(toObjects, directory)))
    let isWhole = true
    await forEachConcurrently(
      names.filter((name) => !known.has(name)),
      async (name) => {
        const path = join(directory, name)
        const file = await copy(join(objects, path), join(toObjects, path))
        if (file === undefined) isWhole = false
        else copied(join('objects', path), file)
      },
    )
    return isWhole
  })
  for await (const { directory, oids } of lfsDirectories(from)) {
    const known = new Set(await namesIn(join(to, directory)))
    await forEachConcurrently(
      oids.filter((oid) => !known.has(oid)),
      async (oid) => {
        const path = join(directory, oid)
        const file = await copy(join(from, path), join(to, path))
        if (file !== undefined) copied(path, file)
      },
    )
  }
  // A deletion renames the repository first. So a repository that has its name had all of its objects until now.
  return await exists(join(from, 'HEAD'))
}

/** Writes configuration and refs of the copy in `to`. Resolves to false when the repository in `from` was deleted. */
export async function writeRefs(
  from: string,
  to: string,
  { defaultBranch, refs }: NamedRepository,
): Promise<boolean> {
  const config = await readFile(join(from, 'config')).catch((error: unknown) => {
    if (isMissing(error)) return undefined
    throw error
  })
  if (config === undefined) return false
  for (const name of REPOSITORY_DIRECTORIES) await mkdir(join(to, name), { recursive: true })
  await writeFile(join(to, 'config'), config)
  await writeFile(join(to, 'HEAD'), `ref: refs/heads/${defaultBranch}\n`)
  await rm(join(to, 'packed-refs'), { force: true })
  if (refs.size > 0) await writeFile(join(to, 'packed-refs'), packedRefs(refs))
  return true
}

/** Removes large files (LFS) that the log does not name from the copy. Resolves to the paths of missing ones. */
export async function settleLfsFiles(to: string, { lfs }: NamedRepository): Promise<string[]> {
  const missing = new Set(lfs)
  for await (const { directory, oids } of lfsDirectories(to)) {
    for (const oid of oids) if (!missing.delete(oid)) await rm(join(to, directory, oid))
  }
  return [...missing].map(lfsPath)
}

/** The packed-refs file. git uses a binary search in it, so refs must be sorted by their bytes. */
function packedRefs(refs: ReadonlyMap<string, string>): string {
  const sorted = [...refs]
    .map(([ref, sha]) => ({ bytes: Buffer.from(ref), line: `${sha} ${ref}\n` }))
    .sort((a, b) => Buffer.compare(a.bytes, b.bytes))
  return `# pack-refs with: sorted \n${sorted.map(({ line }) => line).join('')}`
}

/** Whether the copy has all objects that the refs reach. If so, lets git add the peeled tags to packed-refs. */
export async function isConnected(dir: string, { refs }: NamedRepository): Promise<boolean> {
  if (refs.size === 0) return true
  const args = ['rev-list', '--objects', '--all', '--quiet']
  if ((await git(args, { dir, timeout: CHECK_TIMEOUT })).code !== 0) return false
  const hasTags = refs.keys().some((ref) => ref.startsWith('refs/tags/'))
  if (hasTags) await gitOutput(['pack-refs', '--all'], { dir })
  return true
}
