/**
 * Moves read models in the store. A batch without changes for a model, the usual case, moves it in memory only, because
 * a write of checkpoints costs as much as one of documents. Its checkpoint follows with the next change, or after a
 * second. So after a kill, at most a second of events without changes is folded again.
 */
import type { Position } from '../../events/store/event-store.ts'
import { isFollowed, type Progress } from '../generations/shared-models.ts'
import type { Change, Changes, Checkpoint, MovedCheckpoint, ReadStore } from '../store/read-store.ts'

/** Maximum delay of checkpoints that moved in memory only, in milliseconds. */
const SAVE_MS = 1000

const NO_CHECKPOINTS: ReadonlyMap<string, Checkpoint> = new Map()

export type Positions = ReturnType<typeof createPositions>

/**
 * `move` moves the checkpoints of a shared store. `save` is called a second after a model has moved in memory only, and
 * calls `saveAll` between batches.
 */
export function createPositions(
  progress: readonly Progress[],
  views: Pick<ReadStore, 'apply'>,
  move: ((moved: ReadonlyMap<string, MovedCheckpoint>) => Promise<void>) | undefined,
  save: () => Promise<void>,
) {
  /** Checkpoints as read or last written here. A model that has not begun has none. */
  const saved = new Map<string, Position>()
  let timer: NodeJS.Timeout | undefined
  let isStopped = false

  function isUnsaved(p: Progress): boolean {
    const at = saved.get(p.model.name)
    return at !== undefined && at !== p.position && !isFollowed(p) && p.stopped === undefined
  }

  /**
   * Writes documents and checkpoints, and calls `written` before other servers can see the checkpoints, because their
   * clients may come here. The embedded store writes both together.
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
    /** Records a checkpoint that was read, or moved by another server. */
    markSaved(name: string, position: Position): void {
      saved.set(name, position)
    },
    /** Call it when models have moved. */
    saveSoon,
    /** Writes the checkpoints of all models that have moved in memory only. */
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

/** Returns the first list and the rest; undefined without lists. */
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
