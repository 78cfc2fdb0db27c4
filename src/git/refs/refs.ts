/** Reads refs, and moves them by compare-and-swap. */
import { dirname, join } from 'node:path'
import { forEachInSlices } from '../../concurrency/event-loop.ts'
import { flush } from '../../storage/disk.ts'
import { GitFailed } from '../process/errors.ts'
import { git, gitOutput } from '../process/run.ts'
import { splitAt } from '../process/split.ts'
import { freeLocks, LOCKED_WITH_REFS } from '../repository/leftovers.ts'
import { checkedId, checkedRef, isHiddenRef, isServersRef, ZERO_ID } from './names.ts'
import { makeRefFile, moveRefFile } from './ref-file-writes.ts'
import { readRefFiles } from './ref-files.ts'

export interface Ref {
  /** The full name: `refs/heads/main`. */
  ref: string
  /** The object that it points at: a commit, or the tag object of an annotated tag. */
  sha: string
}

/** The change of one ref. */
export interface RefChange {
  ref: string
  /** The expected object id before the change; null: the ref must not exist. */
  from: string | null
  /** The object id after the change; null: the ref is deleted. */
  to: string | null
}

/**
 * `stale`: a ref was not at the expected object. `name-conflict`: one name is the beginning of another ref's path (`a`
 * and `a/b`). In both cases no ref moved.
 */
export type RefOutcome = 'moved' | 'stale' | 'name-conflict'

/** Maximum number of names in a command line, whose length the operating system limits. */
const MAX_PATTERNS = 200
/** Maximum number of refs read file by file. For more, one git process is faster. */
const MAX_FILES = 50
const NEWLINE = 0x0a
const ID_LENGTH = 40
/** The directories that git never removes when they are empty. */
const KEPT: ReadonlySet<string> = new Set(['refs/heads', 'refs/tags', 'refs', '.'])

/** Returns all visible refs, or those below a prefix that ends with a slash (`refs/heads/`), sorted by name. */
export async function listRefs(dir: string, prefix = 'refs/'): Promise<Ref[]> {
  if (prefix !== 'refs/') checkedRef(`${prefix}x`)
  return (await forEachRef(dir, [prefix])).filter(({ ref }) => !isHiddenRef(ref))
}

/** Returns the object id of a ref; null for a missing ref. */
export async function resolveRef(dir: string, ref: string): Promise<string | null> {
  return (await readRefs(dir, [ref])).get(ref) ?? null
}

/** Returns the object ids of these refs; null for a missing ref. Mostly needs no git process. */
export async function readRefs(dir: string, refs: readonly string[]): Promise<Map<string, string | null>> {
  const names = new Set<string>()
  await forEachInSlices(refs, (ref) => {
    names.add(checkedRef(ref))
  })
  const unique = [...names]
  const result =
    unique.length > MAX_FILES ? new Map<string, string | null>() : await readRefFiles(dir, unique)
  const unknown = unique.filter((ref) => !result.has(ref))
  if (unknown.length === 0) return result
  await forEachInSlices(unknown, (ref) => {
    result.set(ref, null)
  })
  const found = await forEachRef(dir, unknown.length > MAX_PATTERNS ? ['refs/'] : unknown)
  await forEachInSlices(found, ({ ref, sha }) => {
    if (result.has(ref)) result.set(ref, sha)
  })
  return result
}

async function forEachRef(dir: string, patterns: readonly string[]): Promise<Ref[]> {
  const args = ['for-each-ref', '--format=%(objectname) %(refname)', '--', ...patterns]
  const refs: Ref[] = []
  const onOutput = splitAt(NEWLINE, (line) => {
    const text = line.toString()
    refs.push({ sha: text.slice(0, ID_LENGTH), ref: text.slice(ID_LENGTH + 1) })
  })
  await gitOutput(args, { dir, onOutput })
  return refs
}

/**
 * Moves, creates (`from: null`) or deletes (`to: null`) one ref if it is at `from`. The change is on disk when this
 * resolves.
 */
export async function updateRef(
  dir: string,
  ref: string,
  { from, to }: { from: string | null; to: string | null },
): Promise<RefOutcome> {
  return await updateRefs(dir, [{ ref, from, to }])
}

/**
 * Applies all of the changes, or none. Each ref may be named once.
 * @throws GitFailed for a missing object, or when a ref is locked for seconds
 */
export async function updateRefs(dir: string, changes: readonly RefChange[]): Promise<RefOutcome> {
  const [only, ...others] = changes
  if (only === undefined) return 'moved'
  if (others.length === 0 && only.to !== null) {
    const { from } = only
    const [ref, to] = [checkedRef(only.ref), checkedId(only.to)]
    const written =
      from === null ? await makeRefFile(dir, ref, to) : await moveRefFile(dir, ref, checkedId(from), to)
    if (written) {
      await flush(join(dir, dirname(ref)))
      return 'moved'
    }
  }
  const commands = changes.map(({ ref, from, to }) => {
    const old = from === null ? ZERO_ID : checkedId(from)
    if (to !== null) return `update ${checkedRef(ref)}\0${checkedId(to)}\0${old}\0`
    return `${from === null ? 'verify' : 'delete'} ${checkedRef(ref)}\0${old}\0`
  })
  const args = ['update-ref', '--no-deref', '--stdin', '-z']
  const refs = changes.map(({ ref }) => ref)
  await freeLocks(dir, refs.every(isServersRef) ? refs : [...LOCKED_WITH_REFS, ...refs])
  const { code, stderr } = await git(args, { dir, input: commands.join('') })
  if (code === 0) {
    await flushRefs(dir, refs)
    return 'moved'
  }
  // git's messages differ between versions, so compare the refs themselves.
  const now = await readRefs(dir, refs)
  if (changes.some(({ ref, from }) => now.get(ref) !== from)) return 'stale'
  if (/exists; cannot create|cannot process .* and .* at the same time/.test(stderr)) return 'name-conflict'
  throw new GitFailed(args, code, stderr)
}

/**
 * Flushes the directories of refs that were just written, so that the refs survive a power cut. git itself
 * flushes only the files.
 */
export async function flushRefs(dir: string, refs: readonly string[]): Promise<void> {
  // Deleting a ref may rewrite `packed-refs`, which is in the repository's own directory.
  const directories = new Set([dir])
  await forEachInSlices(refs, (ref) => {
    let directory = dirname(ref)
    directories.add(join(dir, directory))
    // The directories above it may be as new as the ref.
    while (!KEPT.has(directory)) {
      directory = dirname(directory)
      directories.add(join(dir, directory))
    }
  })
  for (const directory of directories) await flush(directory)
}
