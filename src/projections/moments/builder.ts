/** Builds the files of moments in a thread: read stores that no event changes any more. */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Membership } from '../../events/nodes/nodes.ts'
import { type RecordedEvent, StoreUnavailable } from '../../events/store/event-store.ts'
import { namesIn } from '../../storage/disk.ts'
import { type RequestThread, startRequestThread } from '../../storage/request-thread.ts'
import type { ModelGroup } from './moment-models.ts'

/** Events for a group of read models, in the order of the log. Those of accounts replace their earlier documents. */
export interface MomentPart {
  models: ModelGroup
  events: readonly RecordedEvent[]
}

export type BuilderStep =
  /** Creates the file as a copy of `from`, or of the file without documents, `empty`, which is created when it is missing. */
  | { kind: 'begin'; file: string; from: string | undefined; empty: string }
  | ({ kind: 'fold'; file: string } & MomentPart)
  /** Answers with the size of the file, in bytes. */
  | { kind: 'end'; file: string }
  | { kind: 'abandon'; file: string }

export interface MomentBuilder {
  /**
   * Builds a file from another one, which must not change meanwhile, and later events. Resolves to its name and size, in
   * bytes. Removes it when `parts` or a write fails.
   * @throws StoreUnavailable, or the error of `parts`
   */
  build(from: string | undefined, parts: AsyncIterable<MomentPart>): Promise<{ file: string; bytes: number }>
  /** Removes a file and what SQLite has beside it. */
  remove(file: string): Promise<void>
  /** Ends the thread and removes the directory. */
  close(): Promise<void>
}

/** The directory of the moments of all nodes. */
const momentsDirectory = (dataDir: string) => join(dataDir, 'moments')

/**
 * Returns a directory for the moments of this start of a node, and removes those of nodes that are gone. Names of nodes would
 * not do: two nodes of one DATA_DIR may have the same, and each would remove and overwrite the files of the other.
 */
export async function ownMomentsDirectory(
  dataDir: string,
  { self, isGone }: Pick<Membership, 'self' | 'isGone'>,
): Promise<string> {
  const directory = momentsDirectory(dataDir)
  for (const name of await namesIn(directory)) {
    if (await isGone(name)) await rm(join(directory, name), { recursive: true, force: true })
  }
  return join(directory, self().id)
}

/** Time without a build after which the thread ends, in milliseconds. */
const IDLE_MS = 30_000
/** Size of V8's young generation, in MB: the thread keeps one batch of events. */
const YOUNG_MB = 8

/** Empties the directory: its files are of no use after a restart. */
export async function createMomentBuilder(directory: string): Promise<MomentBuilder> {
  await rm(directory, { recursive: true, force: true })
  await mkdir(directory, { recursive: true })
  let thread: RequestThread<BuilderStep, number> | undefined
  let idle: NodeJS.Timeout | undefined
  let running = 0
  let files = 0

  function started(): RequestThread<BuilderStep, number> {
    clearTimeout(idle)
    if (thread?.isRunning() !== true) {
      thread = startRequestThread('projections/moments/builder-program', {
        resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
      })
    }
    return thread
  }

  function endWhenIdle(): void {
    if (running > 0) return
    idle = setTimeout(() => void thread?.end(), IDLE_MS).unref()
  }

  return {
    async build(from, parts) {
      files += 1
      running += 1
      const file = join(directory, `${files}.db`)
      const builder = started()
      const ask = (step: BuilderStep) =>
        builder.ask(step).catch((error: unknown) => {
          throw new StoreUnavailable('a past moment cannot be built', { cause: error })
        })
      try {
        // The next events are read while the thread folds the ones before.
        let folding = ask({ kind: 'begin', file, from, empty: join(directory, 'empty.db') })
        folding.catch(() => {})
        for await (const part of parts) {
          await folding
          folding = ask({ kind: 'fold', file, ...part })
          folding.catch(() => {})
        }
        await folding
        return { file, bytes: await ask({ kind: 'end', file }) }
      } catch (error) {
        await ask({ kind: 'abandon', file }).catch(() => {})
        await removeDatabase(file)
        throw error
      } finally {
        running -= 1
        endWhenIdle()
      }
    },
    remove: removeDatabase,
    async close() {
      clearTimeout(idle)
      await thread?.end()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

const removeDatabase = async (file: string): Promise<void> => {
  await Promise.all(['', '-wal', '-shm'].map((end) => rm(`${file}${end}`, { force: true })))
}
