/** Folds batches of the log and writes what they change, one batch at a time. */
import type { FastifyBaseLogger } from 'fastify'
import { LOG_START, type RecordedEvent } from '../../events/store/event-store.ts'
import { isDiskFull } from '../../storage/disk-full.ts'
import { isFollowed, type Progress, type SharedModels } from '../generations/shared-models.ts'
import type { Touched } from '../store/read-store.ts'
import type { BatchInWork, FoldedAhead } from './fold-ahead.ts'
import { type Advancing, foldBatch } from './fold-batch.ts'
import type { ModelStarts } from './model-starts.ts'
import { type Positions, startOf } from './positions.ts'
import type { Reach } from './reach.ts'
import type { Advance } from './read-model.ts'
import { readBatch } from './readable-events.ts'
import { stopModels } from './stopped-models.ts'
import type { WrittenDocuments } from './written-documents.ts'

/** Runs `work`, which writes what follows from a batch of events, and resolves or rejects as it does. */
export type AroundBatch = (batch: readonly RecordedEvent[], work: () => Promise<void>) => Promise<void>

interface Writing {
  log: FastifyBaseLogger
  reach: Reach
  starts: ModelStarts
  positions: Positions
  documents: WrittenDocuments
  shared: SharedModels | undefined
  /** Runs batches, and all else that writes read models, one at a time. */
  inTurn<T>(work: () => Promise<T>): Promise<T>
  around: AroundBatch
  applied(touched: readonly Touched[]): void
  /** Called when the models have reached a position. */
  moved(): void
}

const NOT_AHEAD: ReadonlyMap<Progress, Advance> = new Map()

export type BatchWriter = ReturnType<typeof createBatchWriter>

export function createBatchWriter(writing: Writing) {
  const { log, reach, starts, positions, documents, shared, inTurn, around, applied, moved } = writing
  /** Whether the disk was full when the last batch was written. */
  let diskIsFull = false

  const advancing = (batch: readonly RecordedEvent[]): Advancing => ({
    views: documents,
    mayRepeat: starts.mayRepeat(batch[0]?.position ?? LOG_START),
  })

  async function write(
    batch: readonly RecordedEvent[],
    ahead: FoldedAhead | undefined,
    isFolded: () => void,
  ): Promise<void> {
    const end = batch.at(-1)
    if (end === undefined) return
    const read = ahead?.read ?? readBatch(batch)
    const models = reach.running().filter((p) => !isFollowed(p))
    const { changes, made, touched, checkpoints, reached, poisoned } = foldBatch(batch, read, models, {
      ...advancing(batch),
      together: shared !== undefined,
      ahead: ahead?.age === documents.age() ? ahead.advanced : NOT_AHEAD,
      folded(all) {
        documents.writing(all)
        isFolded()
      },
      requireWriter: () => shared?.requireMember(),
    })
    const written = () => {
      documents.written(made)
      // What is stored may be later than what was folded again: whoever wants a document reads it then.
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
      // A part of the batch may have been written.
      documents.forget()
      starts.repeatsUpTo(end.position)
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
    advancing,
    isDiskFull: () => diskIsFull,
    /** Begins to fold and write a batch, when earlier work is done. Does nothing when `signal` is aborted by then. */
    begin(batch: readonly RecordedEvent[], ahead: FoldedAhead | undefined, signal: AbortSignal): BatchInWork {
      // Before the batch is written: the subscription may say earlier that it has passed the batch.
      reach.came(batch.at(-1)?.position ?? LOG_START)
      const { promise: folded, resolve: isFolded } = Promise.withResolvers<void>()
      const written = inTurn(async () => {
        // Models may have been taken since: what comes next for them is before this batch.
        if (!signal.aborted) await around(batch, () => write(batch, ahead, isFolded))
      })
      return { folded, written: written.finally(isFolded) }
    },
  }
}
