/**
 * Finds unreachable objects that a push uses: knowing an id must not bring back a removed object. It may be the new object
 * of a ref, a parent, tree or file of a new commit, or a delta base. Also finds objects of the push that none of its refs
 * reaches: they would be invisible and unchecked.
 */
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { limitReached } from '../../errors/limits.ts'
import { namesIn } from '../../storage/disk.ts'
import { firstUnreachable, tipsOf } from '../commits/reachable.ts'
import type { BufferedBody } from '../http/buffered-body.ts'
import { startTransferNow } from '../http/transfer.ts'
import { objectReaders } from '../objects/object-readers.ts'
import { type PackIndex, readPackIndex } from '../objects/pack-index.ts'
import type { SentPack } from '../objects/small-pack.ts'
import { GitFailed, GitUnavailable } from '../process/errors.ts'
import { splitAt } from '../process/split.ts'
import { VISIBLE_REFS } from '../refs/names.ts'
import { quotedPath, withStaging } from '../repository/staging.ts'
import { idsBesidePaths, MAX_NEIGHBORS } from '../trees/tree-neighbors.ts'
import { newTips, type PushRequest } from './push-request.ts'
import { isSelfContained } from './small-push.ts'

const NEWLINE = 0x0a
const ID_LENGTH = 40
const FAN_OUT = /^[0-9a-f]{2}$/
/** Batch size of object reads. */
const PART = 1000

/** A push whose objects are in quarantine, and whose refs have not moved. */
export interface ReceivedPush {
  dir: string
  /** The quarantine directory; empty when the push brings no objects. */
  quarantine: string
  push: PushRequest
  held: BufferedBody
  pack: SentPack
  /** Time limit of one git process, in milliseconds. */
  timeout: number
}

/** The object for which a push is refused. */
export type UnreachableObject =
  /** The push uses it, no ref reaches it, and the push does not bring it. */
  | { borrowed: string }
  /** The push brings it, and none of its refs reaches it. */
  | { unreached: string }

/**
 * Returns an unreachable object that the push uses or brings; undefined without one. Small pushes onto the tip of a branch
 * need no process. Most other pushes need one walk of the new commits, and 20 bytes for each object. git also runs the hook
 * when objects are missing: then the first of them is returned.
 * @throws GitFailed, GitTooSlow, GitUnavailable, RepositoryMissing
 */
export async function findUnreachableObject(arrived: ReceivedPush): Promise<UnreachableObject | undefined> {
  const { dir, quarantine, push, pack } = arrived
  // git takes no objects of a push that only deletes refs.
  if (push.commands.every(({ to }) => to === null)) return undefined
  if (await isSelfContained(arrived)) return undefined
  const index = quarantine === '' ? undefined : await indexIn(quarantine)
  const sent = index ?? looseObjects(quarantine === '' ? new Set() : await looseIn(quarantine))
  const fresh = await walkNew(arrived, newTips(push), sent)
  if ('missing' in fresh) return { borrowed: fresh.missing }
  const bases = index === undefined ? (pack.bases ?? []) : await appendedBases(arrived, index)
  const near = bases.length === 0 ? new Set() : await idsBesidePaths(dir, fresh.boundary, fresh.paths)
  let wanted = [...fresh.absent, ...bases.filter((id) => !near.has(id))]
  // git does not unpack objects that the repository has, so the pack may bring some of these.
  if (wanted.length > 0 && index === undefined && pack.count > 0) wanted = await notSent(arrived, wanted)
  if (wanted.length > 0) {
    const borrowed = await firstUnreachable(dir, wanted, await tipsOf(dir, { queue: 'held' }), {
      queue: 'held',
    })
    if (borrowed !== undefined) return { borrowed }
  }
  const unreached = await firstAbsent(dir, sent.unseen())
  return unreached === undefined ? undefined : { unreached }
}

/**
 * Returns the first id that the repository lacks without the push. A push may bring existing objects again: clients do not
 * know all reachable ones.
 */
async function firstAbsent(
  dir: string,
  ids: AsyncIterable<string> | Iterable<string>,
): Promise<string | undefined> {
  let part: string[] = []
  const absentIn = async () => {
    const headers = await objectReaders.headers(dir, part)
    return part.find((_, i) => headers[i] === undefined)
  }
  for await (const id of ids) {
    part.push(id)
    if (part.length < PART) continue
    const absent = await absentIn()
    if (absent !== undefined) return absent
    part = []
  }
  return await absentIn()
}

/** Returns the index of the single pack in a directory of objects; undefined for loose objects. */
async function indexIn(objects: string): Promise<PackIndex | undefined> {
  const name = (await namesIn(join(objects, 'pack'))).find((file) => file.endsWith('.idx'))
  return name === undefined ? undefined : await readPackIndex(join(objects, 'pack', name))
}

/** The objects of a push. Remembers which ones were looked up. */
type SentObjects = Pick<PackIndex, 'lookUp'> & { unseen(): AsyncIterable<string> | Iterable<string> }

function looseObjects(ids: ReadonlySet<string>): SentObjects {
  const unseen = new Set(ids)
  return {
    lookUp(id) {
      unseen.delete(id)
      return ids.has(id)
    },
    unseen: () => unseen,
  }
}

async function looseIn(objects: string): Promise<Set<string>> {
  const ids = new Set<string>()
  for (const fan of await namesIn(objects)) {
    if (!FAN_OUT.test(fan)) continue
    for (const name of await namesIn(join(objects, fan))) ids.add(`${fan}${name}`)
  }
  return ids
}

interface NewObjects {
  /** Objects that the push does not bring. */
  absent: string[]
  /** Existing commits that are parents of the new ones. */
  boundary: string[]
  /** Paths of the new trees and files, as bytes in latin1. Incomplete when there are very many. */
  paths: Set<string>
}

/** Returns the missing object that git names in its error. */
function missingFor(error: unknown): string | undefined {
  if (!(error instanceof GitFailed) || error.code !== 128) return undefined
  return /\b[0-9a-f]{40}\b/.exec(error.stderr)?.[0]
}

/** Walks from the new tips to the existing refs. Objects deep in the history of a ref may be among the result. */
async function walkNew(
  { dir, quarantine, timeout }: ReceivedPush,
  tips: readonly string[],
  sent: Pick<SentObjects, 'lookUp'>,
): Promise<NewObjects | { missing: string }> {
  const objects = join(dir, 'objects')
  const both = { GIT_OBJECT_DIRECTORY: quarantine, GIT_ALTERNATE_OBJECT_DIRECTORIES: quotedPath(objects) }
  const found: NewObjects = { absent: [], boundary: [], paths: new Set() }
  const take = splitAt(NEWLINE, (line) => {
    const text = line.toString('latin1')
    if (text.startsWith('-')) {
      if (found.boundary.length < MAX_NEIGHBORS) found.boundary.push(text.slice(1))
      return
    }
    const id = text.slice(0, ID_LENGTH)
    if (text.length > ID_LENGTH && found.paths.size < MAX_NEIGHBORS)
      found.paths.add(text.slice(ID_LENGTH + 1))
    if (!sent.lookUp(id)) found.absent.push(id)
  })
  const args = ['rev-list', '--objects', '--boundary', '--stdin', '--not', ...VISIBLE_REFS]
  const input = [tips.map((id) => `${id}\n`).join('')]
  try {
    await through(args, dir, { env: quarantine === '' ? {} : both, input, timeout }, async (output) => {
      for await (const chunk of output) take(chunk)
    })
  } catch (error) {
    const missing = missingFor(error)
    if (missing === undefined) throw error
    return { missing }
  }
  return found
}

/** Returns the ids that the pack of the push lacks. A broken pack brings nothing. */
async function notSent(arrived: ReceivedPush, ids: readonly string[]): Promise<string[]> {
  const { dir, held, push, timeout } = arrived
  return await withStaging(dir, async ({ directory, env }) => {
    const input = held.stream(push.packStart)
    const args = ['index-pack', '--stdin', '--fix-thin']
    try {
      await through(args, dir, { env, input, timeout }, async (output) => {
        for await (const _ of output);
      })
    } catch (error) {
      // git unpacks some packs that it cannot index, for example with deltas that build on each other.
      if (error instanceof GitFailed) return [...ids]
      throw error
    }
    const index = await indexIn(directory)
    if (index === undefined) return [...ids]
    const appended = new Set(await appendedBases(arrived, index))
    return ids.filter((id) => appended.has(id) || !index.lookUp(id))
  })
}

/** Returns the delta bases that git has appended to the end of a pack. */
async function appendedBases({ pack }: ReceivedPush, index: PackIndex): Promise<string[]> {
  const count = index.count - pack.count
  return count <= 0 ? [] : await index.last(count)
}

/**
 * Runs a git command with streamed input and output, in the slot of the push. `read` consumes the output.
 * @throws GitFailed, GitUnavailable when it takes longer than `timeout`, and the error of `read`
 */
async function through(
  args: readonly string[],
  dir: string,
  {
    env = {},
    input,
    timeout,
  }: {
    env?: Record<string, string>
    input: Iterable<string> | AsyncIterable<string | Buffer>
    timeout: number
  },
  read: (output: Readable) => Promise<void>,
): Promise<void> {
  // `read` may first start the next command. Output dropped until then would pass unchecked.
  const options = { config: [], env: { ...env, GIT_DIR: dir }, release: () => undefined, keepsOutput: true }
  const process = await startTransferNow(args, options)
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    limitReached('git_time')
    process.stop()
  }, timeout)
  try {
    // git may end before it has read everything; its exit code has the reason.
    const fed = pipeline(input, process.stdin).catch((error: unknown) => ({ error }))
    await read(process.stdout)
    const failed = await fed
    const { code, stderr } = await process.ended
    if (isLate) throw new GitUnavailable(`git ${args[0]} took more than ${timeout} ms`)
    if (code !== 0) throw new GitFailed(args, code, stderr)
    // After git has read all input, its exit may close the stream before the pipeline has noticed.
    if (failed !== undefined && !process.stdin.writableFinished) throw failed.error
  } finally {
    clearTimeout(timer)
    process.stop()
  }
}
