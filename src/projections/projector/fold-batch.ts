/** Folds a batch of the log for the read models that this server writes. */
import type { RecordedEvent } from '../../events/store/event-store.ts'
import type { Progress } from '../generations/shared-models.ts'
import type { Change, Checkpoint, MovedCheckpoint, ReadStore, Touched } from '../store/read-store.ts'
import { placeOf } from './log-positions.ts'
import type { Advance, Poison } from './read-model.ts'
import { eventsFor, type ReadBatch } from './readable-events.ts'
import { reasonOf } from './stopped-models.ts'

/** The result of a batch. It is complete when the caller has taken all changes. */
export interface FoldedBatch {
  /** The changed documents of each read model, one after the other. */
  changes: AsyncGenerator<Change[], void>
  /** The lists that were taken so far. */
  taken: Change[][]
  touched: Touched[]
  /**
   * The new positions of the models whose documents the batch touches, to be written with the changes. Other models do
   * not change, and folding the batch again for them is harmless.
   */
  checkpoints: Map<string, MovedCheckpoint>
  /** The positions of all models after the batch is written. */
  reached: Map<Progress, Reached>
  poisoned: { p: Progress; poison: Poison }[]
}

type Reached = Pick<Checkpoint, 'position' | 'event'>

const NOTHING: Advance = { changes: [], touched: [] }

interface Advancing {
  views: Pick<ReadStore, 'getMany'>
  /** Whether the documents may already hold some of the events. */
  mayRepeat: boolean
}

interface Folding extends Advancing {
  /**
   * For a remote store, whether to request the documents of all models at once. Otherwise models are folded one after
   * the other, while the store writes the changes of the previous one.
   */
  together: boolean
  /** Called before changes are written. @throws LeaseLost when this server may not write any more */
  requireWriter(): void
}

/** Folds a batch for one model. */
async function advance(
  { model, position }: Progress,
  read: ReadBatch,
  { views, mayRepeat }: Advancing,
): Promise<Advance> {
  const { events, poison } = eventsFor(model, read, position)
  const advanced = events.length === 0 ? NOTHING : await model.advance(events, views, mayRepeat)
  return poison === undefined ? advanced : { poison, ...advanced }
}

/** Folds a batch for the models, one after the other. */
export function foldBatch(
  batch: readonly RecordedEvent[],
  read: ReadBatch,
  models: readonly Progress[],
  { together, requireWriter, ...advancing }: Folding,
): FoldedBatch {
  const taken: Change[][] = []
  const touched: Touched[] = []
  const checkpoints = new Map<string, MovedCheckpoint>()
  const reached = new Map<Progress, Reached>()
  const poisoned: { p: Progress; poison: Poison }[] = []

  function note(p: Progress, { touched: own, poison }: Advance): void {
    touched.push(...own)
    // Only positions of events: EventStoreDB accepts no others for the start of a read.
    const last = batch.findLast((e) => poison === undefined || e.position < poison.event.position)
    const at: Reached =
      last !== undefined && last.position > p.position
        ? { position: last.position, event: placeOf(last) }
        : { position: p.position, ...(p.event !== undefined && { event: p.event }) }
    reached.set(p, at)
    if (poison !== undefined) poisoned.push({ p, poison })
    // Also without changes: after an interrupted write, the store may have the documents without the checkpoint.
    if (own.length === 0 && poison === undefined) return
    const stopped = poison && reasonOf(poison)
    const { name, version } = p.model
    checkpoints.set(name, { ...at, version, ...(stopped && { stopped }) })
  }

  async function* changes(): AsyncGenerator<Change[], void> {
    const begun = together ? models.map((p) => advance(p, read, advancing)) : []
    // After an earlier failure, later ones are not awaited.
    for (const one of begun) one.catch(() => {})
    for (const [i, p] of models.entries()) {
      const advanced = await (begun[i] ?? advance(p, read, advancing))
      note(p, advanced)
      if (advanced.changes.length === 0) continue
      requireWriter()
      taken.push(advanced.changes)
      yield advanced.changes
    }
  }

  return { changes: changes(), taken, touched, checkpoints, reached, poisoned }
}
