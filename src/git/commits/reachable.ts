/** Tells which objects the refs of a repository reach. Unreachable objects are never served, copied or revived. */
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { forEachInSlices } from '../../concurrency/event-loop.ts'
import { objectReaders } from '../objects/object-readers.ts'
import { GitFailed } from '../process/errors.ts'
import type { GitSlot } from '../process/limits.ts'
import { type GitOptions, git } from '../process/run.ts'
import { splitAt } from '../process/split.ts'
import { isHiddenRef, VISIBLE_REFS } from '../refs/names.ts'

const NEWLINE = 0x0a
const ID_LENGTH = 40
/** Time limit of a search, in milliseconds. */
const SEARCH_MS = 60_000
/** Batch size of object reads. */
const PART = 1000
/** Maximum number of objects whose ids are cached. In larger repositories, each search walks the history again. */
const MAX_CACHED = 500_000
/** An id in a `Set` takes about this many bytes. */
const BYTES_PER_ID = 80

/** The refs of a repository at a moment. */
export interface Tips {
  /** The ids that refs have: commits, and the tag objects of annotated tags. */
  ids: ReadonlySet<string>
  /** Equal for equal ids. */
  fingerprint: string
  /** They are not the present refs. git gets them by id, so the repository must have each of them. */
  arePast?: true
}

/** Arguments and lines of input by which git begins a walk at tips or, with `not`, leaves out what they reach. */
function beginAt({ ids, arePast }: Tips, { not = false } = {}): { args: string[]; lines: string } {
  if (!arePast) return { args: [...(not ? ['--not'] : []), ...VISIBLE_REFS], lines: '' }
  return { args: [], lines: [...ids].map((id) => `${not ? '^' : ''}${id}\n`).join('') }
}

/** Ids of objects, in several sets: the growth of one large Set would block the event loop. */
interface ObjectIds {
  size: number
  has(id: string): boolean
  add(id: string): void
}

function createObjectIds(): ObjectIds {
  const parts = new Map<string, Set<string>>()
  let size = 0
  return {
    get size() {
      return size
    },
    has: (id) => parts.get(id.slice(0, 2))?.has(id.slice(2)) ?? false,
    add(id) {
      const part = parts.get(id.slice(0, 2)) ?? new Set<string>()
      parts.set(id.slice(0, 2), part)
      const before = part.size
      part.add(id.slice(2))
      size += part.size - before
    },
  }
}

type SearchOptions = Pick<GitOptions, 'signal' | 'queue'>

/** Returns the ids of all refs of the repository. */
export async function tipsOf(dir: string, options: SearchOptions = {}): Promise<Tips> {
  const ids = new Set<string>()
  const onOutput = splitAt(NEWLINE, (line) => {
    const text = line.toString('latin1')
    if (!isHiddenRef(text.slice(ID_LENGTH + 1))) ids.add(text.slice(0, ID_LENGTH))
  })
  await checked(['for-each-ref', '--format=%(objectname) %(refname)'], { ...options, dir, onOutput })
  return { ids, fingerprint: fingerprintOf(ids) }
}

/** The objects of these ids that the repository still has, as tips. */
export async function pastTips(dir: string, ids: ReadonlySet<string>): Promise<Tips> {
  const known = new Set<string>()
  for (const header of await objectReaders.headers(dir, [...ids]))
    if (header !== undefined) known.add(header.sha)
  return { ids: known, fingerprint: fingerprintOf(known), arePast: true }
}

function fingerprintOf(ids: ReadonlySet<string>): string {
  const hash = createHash('sha256')
  for (const id of ids) hash.update(id)
  return hash.digest('base64')
}

const reachableIds = new LRUCache<string, ObjectIds>({
  maxSize: 2 * MAX_CACHED * BYTES_PER_ID,
  sizeCalculation: ({ size }) => 1000 + size * BYTES_PER_ID,
})

/** Reachability of single objects, by repository, refs and id. Valid until a ref moves. */
const answers = new LRUCache<string, boolean>({ max: 20_000 })

/**
 * Whether a ref reaches the object with this id; false for a missing object, too. Lists the refs, unless it starts at
 * given tips; a search runs in a slot that `inSlot` takes.
 * @throws GitUnavailable after a minute, and the error of `inSlot`
 */
export async function isReached(
  dir: string,
  id: string,
  inSlot: (search: (slot: GitSlot) => Promise<boolean>) => Promise<boolean>,
  from?: Tips,
): Promise<boolean> {
  const tips = from ?? (await tipsOf(dir, { queue: 'query' }))
  if (tips.ids.has(id)) return true
  const key = [dir, tips.fingerprint, id].join('\0')
  const known = answers.get(key)
  if (known !== undefined) return known
  const answer = await inSlot(
    async ({ queue, signal }) => (await firstUnreachable(dir, [id], tips, { queue, signal })) === undefined,
  )
  answers.set(key, answer)
  return answer
}

/**
 * Returns one of the ids that is unreachable; undefined when refs reach all. Tips need no process, commits need one,
 * and trees and blobs may need a walk of the history, whose result is cached until a ref moves.
 * @throws GitUnavailable after a minute
 */
export async function firstUnreachable(
  dir: string,
  ids: Iterable<string>,
  tips: Tips,
  options: SearchOptions = {},
): Promise<string | undefined> {
  const wanted: string[] = []
  await forEachInSlices(ids, (id) => {
    if (!tips.ids.has(id)) wanted.push(id)
  })
  if (wanted.length === 0) return undefined
  const at = `${dir}\0${tips.fingerprint}`
  const known = reachableIds.get(at)
  const commits: string[] = []
  const others: string[] = []
  // In batches: a fetch may want hundreds of thousands, and the first missing one ends the search.
  for (let i = 0; i < wanted.length; i += PART) {
    options.signal?.throwIfAborted()
    const part = wanted.slice(i, i + PART)
    for (const [place, header] of (await objectReaders.headers(dir, part)).entries()) {
      const id = part[place] ?? ''
      if (header === undefined) return id
      if (header.type === 'commit') commits.push(id)
      else others.push(id)
    }
  }
  if (commits.length > 0) {
    const found = await unreachableCommit(dir, commits, tips, options)
    if (found !== undefined) return found
  }
  if (others.length === 0) return undefined
  if (known !== undefined) return others.find((id) => !known.has(id))
  // Most wanted trees and blobs are those of a branch's newest commit.
  const newest = reachableIds.get(`${at}\0newest`)
  const missing = new Set<string>()
  await forEachInSlices(others, (id) => {
    if (newest?.has(id) !== true) missing.add(id)
  })
  if (newest === undefined) {
    const found = await walk(dir, ['--no-walk'], tips, missing, options)
    if (found !== undefined) reachableIds.set(`${at}\0newest`, found)
  }
  if (missing.size === 0) return undefined
  const all = await walk(dir, [], tips, missing, options)
  if (all !== undefined) reachableIds.set(at, all)
  const [first] = missing
  return first
}

/**
 * Returns the existing ids that are neither tips nor reachable commits. Trees and files count as unreachable. Needs no
 * process for tips and missing objects, and one for all commits.
 * @throws GitUnavailable after a minute
 */
export async function unreachedAmong(
  dir: string,
  ids: Iterable<string>,
  tips: Tips,
  options: SearchOptions = {},
): Promise<ReadonlySet<string>> {
  const others: string[] = []
  await forEachInSlices(ids, (id) => {
    if (!tips.ids.has(id)) others.push(id)
  })
  const commits = new Set<string>()
  const unreached = new Set<string>()
  for (let i = 0; i < others.length; i += PART) {
    options.signal?.throwIfAborted()
    for (const header of await objectReaders.headers(dir, others.slice(i, i + PART))) {
      if (header === undefined) continue
      if (header.type === 'commit') commits.add(header.sha)
      else unreached.add(header.sha)
    }
  }
  if (commits.size === 0) return unreached
  const args = ['rev-list', '--stdin', '--not', ...VISIBLE_REFS]
  const input = [...commits].map((id) => `${id}\n`).join('')
  const onOutput = splitAt(NEWLINE, (line) => {
    const id = line.toString('latin1')
    if (commits.has(id)) unreached.add(id)
  })
  const { code, stderr } = await git(args, { ...options, dir, input, onOutput, timeout: SEARCH_MS })
  // An ancestor of an unreachable object may be missing. Then reachability of the commits is unknown.
  if (code === 128) for (const id of commits) unreached.add(id)
  else if (code !== 0) throw new GitFailed(args, code, stderr)
  return unreached
}

async function unreachableCommit(
  dir: string,
  commits: readonly string[],
  tips: Tips,
  options: SearchOptions,
): Promise<string | undefined> {
  const start = beginAt(tips, { not: true })
  const args = ['rev-list', '--max-count=1', '--stdin', ...start.args]
  const input = commits.map((id) => `${id}\n`).join('') + start.lines
  const { code, stdout, stderr } = await git(args, { ...options, dir, input, timeout: SEARCH_MS })
  // An ancestor of an unreachable commit may be missing.
  if (code === 128) return commits[0]
  if (code !== 0) throw new GitFailed(args, code, stderr)
  const found = stdout.toString('latin1').trim()
  return found === '' ? undefined : found
}

/**
 * Removes the objects that a walk finds from `missing`. Returns all found objects; undefined when there are too many,
 * and then the walk ends as soon as `missing` is empty.
 */
async function walk(
  dir: string,
  options: readonly string[],
  tips: Tips,
  missing: Set<string>,
  search: SearchOptions,
): Promise<ObjectIds | undefined> {
  let all: ObjectIds | undefined = createObjectIds()
  const enough = new AbortController()
  const { signal } = search
  const giveUp = () => enough.abort(signal?.reason)
  signal?.addEventListener('abort', giveUp, { once: true })
  const onOutput = splitAt(NEWLINE, (line) => {
    const id = line.toString('latin1')
    missing.delete(id)
    all?.add(id)
    if (all !== undefined && all.size > MAX_CACHED) all = undefined
    if (all === undefined && missing.size === 0) enough.abort()
  })
  const start = beginAt(tips)
  const args = ['rev-list', '--objects', '--no-object-names', '--stdin', ...options, ...start.args]
  try {
    signal?.throwIfAborted()
    await checked(args, {
      ...search,
      dir,
      input: start.lines,
      onOutput,
      timeout: SEARCH_MS,
      signal: enough.signal,
    })
  } catch (error) {
    if (missing.size > 0 || signal?.aborted) throw error
  } finally {
    signal?.removeEventListener('abort', giveUp)
  }
  return all
}

/** Runs a git command with streamed output. @throws GitFailed, and the errors of `git` */
async function checked(args: readonly string[], options: GitOptions): Promise<void> {
  const { code, stderr } = await git(args, options)
  if (code !== 0) throw new GitFailed(args, code, stderr)
}
