/**
 * Moves read models in the store. Where a batch changes nothing for a model, the model moves in memory alone: most
 * batches of a single client are like that, and a write of checkpoints costs as much as a write of documents. Its
 * checkpoint follows with the next change, or after a second. So a server that is killed folds at most a second of
 * events again that change nothing.
 */
import type { Position } from '../../events/store/event-store.ts'
import { isFollowed, type Progress } from '../generations/shared-models.ts'
import type { Change, Changes, Checkpoint, MovedCheckpoint, ReadStore } from '../store/read-store.ts'

/** After how many milliseconds the checkpoints of models that nothing has changed are written. */
const SAVE_MS = 1000

const NO_CHECKPOINTS: ReadonlyMap<string, Checkpoint> = new Map()

export type Positions = ReturnType<typeof createPositions>

/**
 * `move`: moves the checkpoints of a store that several servers share. `save` is called some time after a model has
 * moved in memory alone: it calls `saveAll` when no batch is written.
 */
export function createPositions(
  progress: readonly Progress[],
  views: Pick<ReadStore, 'apply'>,
  move: ((moved: ReadonlyMap<string, MovedCheckpoint>) => Promise<void>) | undefined,
  save: () => Promise<void>,
) {
  /**
   * The checkpoints as they were read, or written here last. A model that has not begun has none: where it is, nobody
   * knows.
   */
  const saved = new Map<string, Position>()
  let timer: NodeJS.Timeout | undefined
  let isStopped = false

  function isUnsaved(p: Progress): boolean {
    const at = saved.get(p.model.name)
    return at !== undefined && at !== p.position && !isFollowed(p) && p.stopped === undefined
  }

  /**
   * Writes documents and checkpoints, and calls `written` between them: another server that sees a checkpoint may send
   * its client here. The embedded store writes both together.
   */
  async function write(
    changes: Changes,
    checkpoints: ReadonlyMap<string, MovedCheckpoint>,
    written = () => {},
  ): Promise<void> {
    if (move === undefined) {
      await views.apply(changes, checkpoints)
      written()
    } else {
      await views.apply(changes, NO_CHECKPOINTS)
      written()
      await move(checkpoints)
    }
    for (const [name, { position }] of checkpoints) saved.set(name, position)
  }

  function saveSoon(): void {
    if (timer !== undefined || isStopped || !progress.some(isUnsaved)) return
    timer = setTimeout(() => {
      timer = undefined
      save().then(saveSoon, saveSoon)
    }, SAVE_MS)
    timer.unref()
  }

  return {
    write,
    /** The checkpoint of a model was read, or moved by somebody else. */
    isSaved(name: string, position: Position): void {
      saved.set(name, position)
    },
    /** To be called when models have moved. */
    saveSoon,
    /** Writes the checkpoints of all models that have moved in memory alone. */
    async saveAll(): Promise<void> {
      const unsaved = progress.filter(isUnsaved)
      if (unsaved.length === 0) return
      const moved = unsaved.map(
        ({ model: { name, version }, position, event }) =>
          [name, { position, version, ...(event !== undefined && { event }) }] as const,
      )
      await write([], new Map(moved))
    },
    stop(): void {
      isStopped = true
      clearTimeout(timer)
    },
  }
}

/** The first of the lists, and those after it; undefined when there is none. */
export async function startOf(
  changes: AsyncGenerator<Change[], void>,
): Promise<AsyncGenerator<Change[], void> | undefined> {
  const first = await changes.next()
  if (first.done === true) return undefined
  const { value } = first
  return (async function* () {
    yield value
    yield* changes
  })()
}
