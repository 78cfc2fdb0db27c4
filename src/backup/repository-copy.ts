/**
 * The copy of a bare repository while it is in use: its objects, which only ever come, as git has them; its refs
 * as the log has them.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { exists, isMissing, namesIn } from '../disk.ts'
import { takeObjectFiles } from '../git/object-files.ts'
import { git, gitOutput } from '../git/run.ts'
import { type CopiedFile, type FileCopier, fewAtOnce } from './file-copier.ts'
import type { NamedRepository } from './named-by-log.ts'

/** Walking all of a repository takes as long as it is large, in milliseconds. */
const CHECK_TIMEOUT = 24 * 3600_000

/** Directories that git wants to see in a repository, also when nothing is in them. */
export const REPOSITORY_DIRECTORIES = ['objects/pack', 'refs/heads', 'refs/tags']
/** What is written anew, not copied, when a backup takes another look at the log. */
export const REPOSITORY_FILES = ['HEAD', 'config', 'packed-refs']

/**
 * Copies the objects that the copy in `to` does not have yet. False when the repository is gone, or on its way;
 * then the copy may lack some.
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
    await fewAtOnce(
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
  // Deleting renames first, so a repository that still has its name had all of its objects until now.
  return await exists(join(from, 'HEAD'))
}

/** Gives the copy in `to` its configuration and refs. False when the repository in `from` is gone. */
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

/** git looks refs up by halving, in the order of their bytes. */
function packedRefs(refs: ReadonlyMap<string, string>): string {
  const sorted = [...refs]
    .map(([ref, sha]) => ({ bytes: Buffer.from(ref), line: `${sha} ${ref}\n` }))
    .sort((a, b) => Buffer.compare(a.bytes, b.bytes))
  return `# pack-refs with: sorted \n${sorted.map(({ line }) => line).join('')}`
}

/** Whether all that the refs lead to is there. Then tags are packed with what they point at, as git does it. */
export async function isConnected(dir: string, { refs }: NamedRepository): Promise<boolean> {
  if (refs.size === 0) return true
  const args = ['rev-list', '--objects', '--all', '--quiet']
  if ((await git(args, { dir, timeout: CHECK_TIMEOUT })).code !== 0) return false
  const hasTags = [...refs.keys()].some((ref) => ref.startsWith('refs/tags/'))
  if (hasTags) await gitOutput(['pack-refs', '--all'], { dir })
  return true
}
