/**
 * Finds what a push takes from the repository although no ref reaches it: an id alone must not bring back what was
 * removed. It may be the new object of a ref, a parent, tree or file of a new commit, or what a delta builds on. Finds also
 * what a push brings although none of its refs reaches it: nobody could see it, and nobody would look at it.
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
import { quotedPath, withStaging } from '../repository/staging.ts'
import { idsBesidePaths, MAX_NEIGHBORS } from '../trees/tree-neighbors.ts'
import { newTips, type PushRequest } from './push-request.ts'
import { isSelfContained } from './small-push.ts'

const NEWLINE = 0x0a
const ID_LENGTH = 40
const FAN_OUT = /^[0-9a-f]{2}$/
/** So many objects are asked for at once. */
const PART = 1000

/** A push whose objects git has put into a place of their own, and whose refs have not moved. */
export interface ReceivedPush {
  dir: string
  /** The directory of the objects that git has taken; empty when the push brings none. */
  quarantine: string
  push: PushRequest
  held: BufferedBody
  pack: SentPack
  /** How long one git process may work, in milliseconds. */
  timeout: number
}

/** An object for which a push is refused. */
export type UnreachableObject =
  /** The push relies on it, no ref reaches it, and the push does not bring it. */
  | { borrowed: string }
  /** The push brings it, and none of its refs reaches it. */
  | { unreached: string }

/**
 * An object that the push borrows, or that none of its refs needs; undefined when there is none. Small pushes onto the tip
 * of a branch cost no process. Most others cost one walk of what is new, and 20 bytes for each object of the push. git's
 * hook runs also when git has found that objects are missing: the first of them is one that the push does not bring.
 *
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
  // git makes no loose object of what the repository has, so the pack may bring some of these.
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
 * The first of the ids that the repository does not have without the push. What it has may come once more: clients do not
 * know of all that refs reach.
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

/** The index of the one pack in a directory of objects; undefined when its objects are loose. */
async function indexIn(objects: string): Promise<PackIndex | undefined> {
  const name = (await namesIn(join(objects, 'pack'))).find((file) => file.endsWith('.idx'))
  return name === undefined ? undefined : await readPackIndex(join(objects, 'pack', name))
}

/** The objects of a push. It remembers which of them were looked at. */
type SentObjects = Pick<PackIndex, 'lookAt'> & { unseen(): AsyncIterable<string> | Iterable<string> }

function looseObjects(ids: ReadonlySet<string>): SentObjects {
  const unseen = new Set(ids)
  return {
    lookAt(id) {
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
  /** Those that are not among the objects of the push. */
  absent: string[]
  /** The commits of refs on which the new ones build. */
  boundary: string[]
  /** Where the new trees and files are, as bytes in latin1. Not all when there are very many. */
  paths: Set<string>
}

/** The first object that git names when it could not go on without it. */
function missingFor(error: unknown): string | undefined {
  if (!(error instanceof GitFailed) || error.code !== 128) return undefined
  return /\b[0-9a-f]{40}\b/.exec(error.stderr)?.[0]
}

/** Walks what the new tips reach and no ref does. Objects deep in the history of a ref may be among them. */
async function walkNew(
  { dir, quarantine, timeout }: ReceivedPush,
  tips: readonly string[],
  sent: Pick<SentObjects, 'lookAt'>,
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
    if (!sent.lookAt(id)) found.absent.push(id)
  })
  const args = ['rev-list', '--objects', '--boundary', '--stdin', '--not', '--all']
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

/** Those of the ids that are not in the pack of the push. Broken packs bring nothing. */
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
      // git unpacks some packs that it does not index, as those whose deltas build on each other.
      if (error instanceof GitFailed) return [...ids]
      throw error
    }
    const index = await indexIn(directory)
    if (index === undefined) return [...ids]
    const appended = new Set(await appendedBases(arrived, index))
    return ids.filter((id) => appended.has(id) || !index.lookAt(id))
  })
}

/** The objects that git has appended to a pack, because deltas in it build on them: they come last. */
async function appendedBases({ pack }: ReceivedPush, index: PackIndex): Promise<string[]> {
  const count = index.count - pack.count
  return count <= 0 ? [] : await index.last(count)
}

/**
 * Runs a git command whose input and output flow, in the slot that the push has. `read` takes the output.
 *
 * @throws GitFailed, GitUnavailable when it takes longer than `timeout`, and what `read` throws
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
  // A reader may first start the next command. What was dropped until then would pass unchecked.
  const options = { config: [], env: { ...env, GIT_DIR: dir }, release: () => undefined, keepsOutput: true }
  const process = await startTransferNow(args, options)
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    limitReached('git_time')
    process.stop()
  }, timeout)
  try {
    // git may end before it has read everything; its exit code says why.
    const fed = pipeline(input, process.stdin).catch((error: unknown) => ({ error }))
    await read(process.stdout)
    const failed = await fed
    const { code, stderr } = await process.ended
    if (isLate) throw new GitUnavailable(`git ${args[0]} took more than ${timeout} ms`)
    if (code !== 0) throw new GitFailed(args, code, stderr)
    // Once git has all, its end may close the stream before the pipeline has seen that.
    if (failed !== undefined && !process.stdin.writableFinished) throw failed.error
  } finally {
    clearTimeout(timer)
    process.stop()
  }
}
