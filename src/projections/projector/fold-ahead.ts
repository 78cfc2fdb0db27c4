/**
 * Folds a batch while the one before it is written. A server that is behind the log, as after a rebuild, then keeps two
 * processors busy. What is folded so is an attempt: it counts only when nothing else has happened to the documents.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { RecordedEvent } from '../../events/store/event-store.ts'
import type { Progress } from '../generations/shared-models.ts'
import { type Advancing, advance } from './fold-batch.ts'
import type { Advance } from './read-model.ts'
import { type ReadBatch, readBatch } from './readable-events.ts'

/** A batch that is being folded and written. */
export interface BatchInWork {
  /** Resolves when it is folded for all models, or has failed. */
  folded: Promise<void>
  /** Resolves when it is written. */
  written: Promise<void>
}

export interface FoldedAhead {
  read: ReadBatch
  /** That of the written documents before it began: at another age, what was folded may be wrong. */
  age: number
  /** Of some of the models. */
  advanced: ReadonlyMap<Progress, Advance>
}

/** Reads the next batch, and folds it for as many models as there is time for until the batch in work is written. */
export async function foldAhead(
  batch: readonly RecordedEvent[],
  { folded, written }: BatchInWork,
  models: readonly Progress[],
  advancing: Advancing,
  age: number,
): Promise<FoldedAhead> {
  let isOver = false
  const end = () => {
    isOver = true
  }
  written.then(end, end)
  const read = readBatch(batch)
  const advanced = new Map<Progress, Advance>()
  await folded
  for (const p of models) {
    await nextTurn()
    if (isOver) break
    try {
      advanced.set(p, await advance(p, read, advancing))
    } catch {
      // It is tried again when the batch is written.
      break
    }
  }
  return { read, age, advanced }
}
