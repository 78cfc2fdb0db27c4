/** Folds batches of the log and writes what they change, one batch at a time. */
import type { FastifyBaseLogger } from 'fastify'
import { LOG_START, type RecordedEvent } from '../../events/store/event-store.ts'
import { isDiskFull } from '../../storage/disk-full.ts'
import { isFollowed, type SharedModels } from '../generations/shared-models.ts'
import type { Touched } from '../store/read-store.ts'
import { foldBatch } from './fold-batch.ts'
import type { ModelStarts } from './model-starts.ts'
import { type Positions, startOf } from './positions.ts'
import type { Reach } from './reach.ts'
import { readBatch } from './readable-events.ts'
import { stopModels } from './stopped-models.ts'
import type { WrittenDocuments } from './written-documents.ts'

/** Runs `work`, which writes the results of a batch, and passes on its result. */
export type AroundBatch = (batch: readonly RecordedEvent[], work: () => Promise<void>) => Promise<void>

interface Writing {
  log: FastifyBaseLogger
  reach: Reach
  starts: ModelStarts
  positions: Positions
  documents: WrittenDocuments
  shared: SharedModels | undefined
  /** Runs batches, and other writes to read models, one at a time. */
  runExclusive<T>(work: () => Promise<T>): Promise<T>
  around: AroundBatch
  applied(touched: readonly Touched[]): void
  /** Called when the models have reached a position. */
  moved(): void
}

export type BatchWriter = ReturnType<typeof createBatchWriter>

export function createBatchWriter(writing: Writing) {
  const { log, reach, starts, positions, documents, shared, runExclusive, around, applied, moved } = writing
  /** Whether the disk was full when the last batch was written. */
  let diskIsFull = false

  async function foldAndWrite(batch: readonly RecordedEvent[]): Promise<void> {
    const end = batch.at(-1)
    if (end === undefined) return
    const read = readBatch(batch)
    const models = reach.running().filter((p) => !isFollowed(p))
    const { changes, taken, touched, checkpoints, reached, poisoned } = foldBatch(batch, read, models, {
      views: documents,
      mayRepeat: starts.mayRepeat(batch[0]?.position ?? LOG_START),
      together: shared !== undefined,
      requireWriter: () => shared?.requireMember(),
    })
    const written = () => {
      documents.written(taken)
      // The stored documents may be later than the refolded ones, so drop them from the cache.
      applied(
        starts.mayRepeat(end.position) ? touched.map(({ collection, id }) => ({ collection, id })) : touched,
      )
    }
    try {
      const found = await startOf(changes)
      if (found === undefined && checkpoints.size === 0) written()
      else await positions.write(found ?? [], checkpoints, written)
      diskIsFull = false
    } catch (error) {
      diskIsFull = isDiskFull(error)
      documents.forget()
      starts.noteRepeats(end.position)
      throw error
    }
    for (const [p, at] of reached) Object.assign(p, at)
    stopModels(log, poisoned)
    shared?.add(read, end.position)
    moved()
    positions.saveSoon()
    starts.passed(batch, end.position)
  }

  return {
    isDiskFull: () => diskIsFull,
    /** Folds and writes a batch, when earlier work is done. Does nothing when `signal` is aborted by then. */
    write(batch: readonly RecordedEvent[], signal: AbortSignal): Promise<void> {
      // Before the write: if that fails, the subscription has not passed the batch.
      reach.delivered(batch.at(-1)?.position ?? LOG_START)
      return runExclusive(async () => {
        // This server may have taken models meanwhile, whose next events are before this batch.
        if (!signal.aborted) await around(batch, () => foldAndWrite(batch))
      })
    },
  }
}
