/**
 * The copy of a bare repository while it is in use: its objects, which only ever come, as git has them; its refs
 * as the log has them.
 */
import { access, mkdir, opendir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from '../git/disk.ts'
import { git, gitOutput } from '../git/run.ts'
import { type CopiedFile, type FileCopier, fewAtOnce } from './file-copier.ts'
import type { NamedRepository } from './named-by-log.ts'

const FAN_OUT = /^[0-9a-f]{2}$/
const LOOSE_OBJECT = /^[0-9a-f]{38}$/
const PACK_FILE = /^(pack-[0-9a-f]{40})\.(?:pack|idx|rev)$/
/** Packs vanish when somebody repacks by hand; more often than this nobody does. */
const PACK_PASSES = 5
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
  async function copyAll(directory: string, names: Iterable<string>): Promise<boolean> {
    let isWhole = true
    await fewAtOnce(names, async (name) => {
      const path = join(directory, name)
      const file = await copy(join(objects, path), join(toObjects, path))
      if (file === undefined) isWhole = false
      else copied(join('objects', path), file)
    })
    return isWhole
  }
  // Loose objects first: one that is packed meanwhile is in a pack by the time the packs are listed.
  for (const fan of await namesIn(objects)) {
    if (!FAN_OUT.test(fan)) continue
    const known = new Set(await namesIn(join(toObjects, fan)))
    const names = await namesIn(join(objects, fan))
    await copyAll(
      fan,
      names.filter((name) => LOOSE_OBJECT.test(name) && !known.has(name)),
    )
  }
  for (let pass = 0; pass < PACK_PASSES; pass++) {
    const known = new Set(await namesIn(join(toObjects, 'pack')))
    const names = await namesIn(join(objects, 'pack'))
    // git names the index last: without it the pack is not complete, and nothing leads into it.
    const complete = new Set(names.filter((name) => name.endsWith('.idx')).map((name) => name.slice(0, -4)))
    const wanted = names.filter((name) => complete.has(PACK_FILE.exec(name)?.[1] ?? '') && !known.has(name))
    if (await copyAll('pack', wanted)) break
  }
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

/** None when the directory does not exist. */
export async function namesIn(directory: string): Promise<string[]> {
  const names: string[] = []
  try {
    for await (const { name } of await opendir(directory)) names.push(name)
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  return names
}

export async function exists(path: string): Promise<boolean> {
  try {
    await access(path)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}
