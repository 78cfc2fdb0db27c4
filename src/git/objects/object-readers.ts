/** A pool of object readers: one for each repository that is in use, and a limited number in all. */
import { stat } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { timeSlices } from '../../concurrency/event-loop.ts'
import { createSemaphore } from '../../concurrency/semaphore.ts'
import { limitReached } from '../../errors/limits.ts'
import { isMissing } from '../../storage/disk.ts'
import { GitOutputTooLarge, GitUnavailable, RepositoryMissing } from '../process/errors.ts'
import { checkedId } from '../refs/names.ts'
import type { ObjectHeader } from './batch-answers.ts'
import { MAX_READ_BYTES, type ObjectReader, type ObjectRequest, startObjectReader } from './object-reader.ts'

/** Limits of one call to a reader: the answers are held until they are read, and other calls wait behind it. */
const MAX_REQUESTS = 1000
const MAX_ANSWER_BYTES = 4 * 1024 * 1024

export interface ReaderLimits {
  /** Processes at the same time. */
  processes?: number
  /** Time limit of a request, including the wait for a process, in milliseconds. */
  deadline?: number
  /** Milliseconds without a request after which a process ends. */
  idle?: number
  /** Milliseconds after which a new process replaces an old one: the old one keeps deleted packs open. */
  age?: number
}

export type ObjectReaders = ReturnType<typeof createObjectReaders>

/** A reader with the pool's bookkeeping. */
interface PooledReader extends ObjectReader {
  dir: string
  /** The identity of the repository's directory when the reader was started. */
  identity: string
  startedAt: number
}

/** Creates a pool with its own limits. The server uses only `objectReaders`. */
export function createObjectReaders({
  processes = Math.max(8, 4 * availableParallelism()),
  deadline = 60_000,
  idle = 30_000,
  age = 5 * 60_000,
}: ReaderLimits = {}) {
  const slots = createSemaphore({ size: processes, share: processes })
  /** The readers that accept requests, by directory, least recently used first. */
  const current = new Map<string, PooledReader>()
  /** The readers whose process has not ended. */
  const running = new Set<PooledReader>()

  function startReader(dir: string, identity: string): PooledReader {
    const onRetired = () => {
      if (current.get(dir) === reader) current.delete(dir)
    }
    const started = startObjectReader(dir, { slots, idle, onRetired })
    const reader: PooledReader = { dir, identity, startedAt: performance.now(), ...started }
    running.add(reader)
    void reader.ended.then(() => running.delete(reader))
    return reader
  }

  function readerOf(dir: string, identity: string): PooledReader {
    const known = current.get(dir)
    const fits = known?.identity === identity && performance.now() - known.startedAt < age
    const reader = known !== undefined && fits ? known : startReader(dir, identity)
    if (known !== undefined && !fits) void known.retire()
    current.delete(dir)
    current.set(dir, reader)
    const [leastRecentlyUsed] = current.values()
    if (current.size > processes) void leastRecentlyUsed?.retire()
    return reader
  }

  async function ask(dir: string, requests: readonly ObjectRequest[]) {
    const reader = readerOf(dir, await identityOf(dir))
    const timer = setTimeout(() => {
      limitReached('git_time')
      reader.fail(new GitUnavailable(`reading objects took more than ${deadline} ms`))
    }, deadline)
    try {
      return await reader.ask(requests)
    } finally {
      clearTimeout(timer)
    }
  }

  return {
    /**
     * Returns the headers of the objects with these ids, in the same order; undefined for a missing object. With `peel`, an
     * id of a tag results in the header of the tag's commit; undefined without a commit.
     * @throws InvalidGitArgument, RepositoryMissing, GitUnavailable, GitFailed
     */
    async headers(
      dir: string,
      ids: readonly string[],
      { peel = false } = {},
    ): Promise<(ObjectHeader | undefined)[]> {
      const names = ids.map((id) => `${checkedId(id)}${peel ? '^{commit}' : ''}`)
      const found: (ObjectHeader | undefined)[] = []
      for (let i = 0; i < names.length; i += MAX_REQUESTS) {
        const batch = names.slice(i, i + MAX_REQUESTS)
        const requests = batch.map((name): ObjectRequest => ({ command: 'info', name }))
        for (const answer of await ask(dir, requests)) {
          found.push(answer && { sha: answer.sha, type: answer.type, size: answer.size })
        }
      }
      return found
    },

    /**
     * Calls `found` with the content of each of these objects, in order. Each may have at most one megabyte. Objects that
     * have been deleted since their headers were read are left out.
     * @throws GitOutputTooLarge, and the errors of `headers`
     */
    async contents(
      dir: string,
      objects: readonly ObjectHeader[],
      found: (header: ObjectHeader, content: Buffer) => void,
    ): Promise<void> {
      const large = objects.find(({ size }) => size > MAX_READ_BYTES)
      if (large !== undefined) {
        limitReached('git_output_bytes')
        throw new GitOutputTooLarge(`the object ${large.sha} has more than ${MAX_READ_BYTES} bytes`)
      }
      for (const batch of batchesOf(objects)) {
        const requests = batch.map(
          ({ sha }): ObjectRequest => ({ command: 'contents', name: checkedId(sha) }),
        )
        const answers = await ask(dir, requests)
        const { pauseIfOver } = timeSlices(dir)
        for (const answer of answers) {
          if (answer !== undefined) found(answer, answer.content)
          await pauseIfOver()
        }
      }
    },

    /** Ends the processes of the repository at this path, or of all below it, after their last answer. */
    async close(path: string): Promise<void> {
      const closing = [...running].filter(({ dir }) => dir === path || dir.startsWith(`${path}/`))
      // The readers don't keep our process alive until they have ended. This timer does.
      const stopTimer = new AbortController()
      const timeout = delay(deadline, undefined, { signal: stopTimer.signal }).catch(() => undefined)
      await Promise.race([Promise.all(closing.map((reader) => reader.retire())), timeout])
      stopTimer.abort()
    },
  }
}

/** The readers of this process. */
export const objectReaders = createObjectReaders()

/** Tells apart two repositories that had the same path one after the other. */
async function identityOf(dir: string): Promise<string> {
  try {
    const { dev, ino, birthtimeNs } = await stat(dir, { bigint: true })
    return `${dev} ${ino} ${birthtimeNs}`
  } catch (error) {
    if (isMissing(error)) throw new RepositoryMissing(`no repository at ${dir}`)
    throw new GitUnavailable(`${dir} can't be read`, { cause: error })
  }
}

/** Splits a list of objects into batches that keep to the limits of one call. */
function* batchesOf(objects: readonly ObjectHeader[]): Generator<ObjectHeader[]> {
  let batch: ObjectHeader[] = []
  let bytes = 0
  for (const object of objects) {
    if (batch.length === MAX_REQUESTS || (batch.length > 0 && bytes + object.size > MAX_ANSWER_BYTES)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(object)
    bytes += object.size
  }
  if (batch.length > 0) yield batch
}
