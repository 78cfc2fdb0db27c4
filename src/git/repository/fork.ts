/** Forks repositories. A fork shares disk space with the original, but stays when the original is deleted. */
import { constants } from 'node:fs'
import { copyFile, link, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { forEachConcurrently } from '../../concurrency/for-each-concurrently.ts'
import { exists, flush, hasCode, isMissing, unlessMissing } from '../../storage/disk.ts'
import { takeObjectFiles } from '../objects/object-files.ts'
import { RepositoryMissing } from '../process/errors.ts'
import { git, gitOutput } from '../process/run.ts'
import { splitAt } from '../process/split.ts'
import { listRefs, type Ref } from '../refs/refs.ts'
import { adoptRepository, createRepository } from './repository.ts'
import { quotedPath } from './staging.ts'

/**
 * Copies the branches and tags of the repository `fromDir` to `toDir`, whose parent must exist. Object files become hard
 * links (or copies, where the file system can't link), so either repository may be deleted later. The original may receive
 * pushes during the call: each ref of the fork has a value from some time during the call. A crash leaves the fork complete
 * or absent. An existing repository at `toDir` stays unchanged. Unreachable objects are not copied: when a pack has some,
 * the fork gets a new pack.
 * @throws RepositoryMissing, and the errors of git
 */
export async function forkRepository(fromDir: string, toDir: string): Promise<'created' | 'exists'> {
  if ((await exists(join(toDir, 'HEAD'))) && (await adoptRepository(toDir))) return 'exists'
  // Read refs before objects, so that all objects of these refs are listed, despite concurrent pushes.
  const refs = [...(await listRefs(fromDir, 'refs/heads/')), ...(await listRefs(fromDir, 'refs/tags/'))]
  const head = (await gitOutput(['symbolic-ref', 'HEAD'], { dir: fromDir })).toString('utf8').trim()
  const defaultBranch = head.replace(/^refs\/heads\//, '')
  return await createRepository(toDir, { defaultBranch }, async (draft) => {
    const objects = join(draft, 'objects')
    let linked: string[] = []
    try {
      linked = await linkObjects(join(fromDir, 'objects'), objects)
      if (!(await keepReachable(draft, refs))) {
        await clear(objects)
        await packHistory(draft, fromDir, refs)
        linked = [join(objects, 'pack')]
      }
    } catch (error) {
      await requireStillThere(fromDir)
      throw error
    }
    await requireStillThere(fromDir)
    await writeRefs(draft, refs)
    for (const directory of linked) await flush(directory)
  })
}

/**
 * A deletion renames the repository first. So if the name still exists, all objects existed until now; otherwise the
 * deletion explains missing objects. @throws RepositoryMissing
 */
async function requireStillThere(dir: string): Promise<void> {
  if (!(await exists(join(dir, 'HEAD')))) throw new RepositoryMissing(`no repository at ${dir}`)
}

/** Time limit for long histories, in milliseconds. */
const HISTORY_TIMEOUT = 30 * 60_000
const NEWLINE = 0x0a

const tipsIn = (refs: readonly Ref[]) =>
  [...new Set(refs.map(({ sha }) => sha))].map((sha) => `${sha}\n`).join('')

/**
 * Removes the loose objects that these refs do not reach, for example those of removed branches, of pull requests and
 * of test merges. Resolves to whether the packs have only reachable objects; false also when an object is missing or
 * exists twice.
 */
async function keepReachable(dir: string, refs: readonly Ref[]): Promise<boolean> {
  const loose = new Set<string>()
  await takeObjectFiles(join(dir, 'objects'), async (directory, names) => {
    if (directory !== 'pack') for (const name of names) loose.add(`${directory}${name}`)
    return true
  })
  const allLoose = loose.size
  let reachable = 0
  const onOutput = splitAt(NEWLINE, (line) => {
    reachable += 1
    if (loose.size > 0) loose.delete(line.toString('latin1'))
  })
  const args = ['rev-list', '--objects', '--no-object-names', '--stdin']
  const { code } = await git(args, { dir, input: tipsIn(refs), onOutput, timeout: HISTORY_TIMEOUT })
  if (code !== 0) return false
  await forEachConcurrently([...loose], (id) =>
    rm(join(dir, 'objects', id.slice(0, 2), id.slice(2)), { force: true }),
  )
  const counts = (await gitOutput(['count-objects', '-v'], { dir })).toString('latin1')
  const packed = Number(/^in-pack: (\d+)$/m.exec(counts)?.[1] ?? 0)
  return packed + allLoose - loose.size === reachable
}

async function clear(objects: string): Promise<void> {
  await rm(objects, { recursive: true })
  for (const name of ['info', 'pack']) await mkdir(join(objects, name), { recursive: true })
}

/** Writes the reachable objects as one pack. */
async function packHistory(dir: string, fromDir: string, refs: readonly Ref[]): Promise<void> {
  const args = ['pack-objects', '-q', '--revs', '--delta-base-offset', join(dir, 'objects/pack/pack')]
  const env = { GIT_ALTERNATE_OBJECT_DIRECTORIES: quotedPath(join(fromDir, 'objects')) }
  await gitOutput(args, { dir, input: tipsIn(refs), env, timeout: HISTORY_TIMEOUT })
}

/** Number of lines per write. */
const LINES_AT_ONCE = 1000

/**
 * Writes the refs into one file: 60,000 single files would take half a minute. git then rewrites that file in its own
 * order, with the targets of annotated tags.
 */
async function writeRefs(dir: string, refs: readonly Ref[]): Promise<void> {
  if (refs.length === 0) return
  await writeFile(join(dir, 'packed-refs'), linesOf(refs))
  await gitOutput(['pack-refs', '--all'], { dir })
  await flush(join(dir, 'packed-refs'))
}

function* linesOf(refs: readonly Ref[]): Generator<string> {
  for (let i = 0; i < refs.length; i += LINES_AT_ONCE) {
    const lines = refs.slice(i, i + LINES_AT_ONCE).map(({ ref, sha }) => `${sha} ${ref}\n`)
    yield lines.join('')
  }
}

const withoutEnding = (name: string) => name.replace(/\.\w+$/, '')

/** Links all object files except those of cruft packs. Returns the directories that received files. */
async function linkObjects(from: string, to: string): Promise<string[]> {
  const directories = new Set([to])
  const isComplete = await takeObjectFiles(from, async (directory, all) => {
    // Cruft packs have objects that were unreachable when they were written. In the rare case that one is reachable again,
    // an object is missing, and the fork gets a new pack.
    const cruft = new Set(all.filter((name) => name.endsWith('.mtimes')).map(withoutEnding))
    const names = all.filter((name) => !cruft.has(withoutEnding(name)))
    const place = join(to, directory)
    await mkdir(place, { recursive: true })
    directories.add(place)
    let isWhole = true
    await forEachConcurrently(names, async (name) => {
      isWhole = (await linkOrCopy(join(from, directory, name), join(place, name))) && isWhole
    })
    return isWhole
  })
  if (!isComplete) throw new RepositoryMissing(`the packs of ${from} keep vanishing`)
  return [...directories]
}

/** Resolves to false for a missing file. */
async function linkOrCopy(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    if (hasCode(error, 'EEXIST')) return true
  }
  // Another file system, one without links, or too many links to this file.
  const copied = await unlessMissing(copyFile(from, to, constants.COPYFILE_FICLONE).then(() => true))
  if (copied) await flush(to)
  return copied ?? false
}
