/** Start positions of read models: their checkpoints, or the first event when their fold is new. */
import type { FastifyBaseLogger } from 'fastify'
import {
  type EventStore,
  LOG_START,
  type Position,
  type RecordedEvent,
} from '../../events/store/event-store.ts'
import { BrokenFile } from '../../storage/sqlite/sqlite.ts'
import type { Progress } from '../generations/shared-models.ts'
import type { Checkpoint, ReadStore } from '../store/read-store.ts'
import { createGaps, type Gaps } from './log-gaps.ts'
import { isOfAnotherLog } from './log-positions.ts'
import type { createPositions } from './positions.ts'
import type { createWrittenDocuments } from './written-documents.ts'

interface Starting {
  log: FastifyBaseLogger
  events: EventStore
  views: ReadStore
  progress: readonly Progress[]
  positions: ReturnType<typeof createPositions>
  documents: ReturnType<typeof createWrittenDocuments>
}

const WHAT_TO_DO =
  'This is an older copy, or another log: restore the right one, or, if DATA_DIR is as old, remove the read models'

export type ModelStarts = ReturnType<typeof createModelStarts>

export function createModelStarts({ log, events, views, progress, positions, documents }: Starting) {
  let endAtStart: Position = LOG_START
  /** Events up to here may have been folded before; initially, the last event of the log when a model began. */
  let repeatedUpTo: Position = LOG_START
  /** Set while a model is rebuilt from the first event: gaps in the log are gaps in the model. */
  let gaps: Gaps | undefined

  return {
    endAtStart: () => endAtStart,

    /** Whether events up to this position may be folded again, so that stored documents may be ahead. */
    mayRepeat: (position: Position) => position <= repeatedUpTo,

    /** Events up to this position are delivered again, and some of their documents may be stored. */
    noteRepeats(position: Position): void {
      repeatedUpTo = Math.max(repeatedUpTo, position)
    },

    /**
     * Prepares the collections and reads the checkpoints.
     * @throws BrokenFile when the log ends before one of them, or has another event there
     */
    async read(): Promise<Map<Progress, Checkpoint>> {
      await views.prepare(progress.map(({ model }) => model.collection))
      const checkpoints = new Map<Progress, Checkpoint>()
      for (const p of progress) {
        const checkpoint = await views.checkpoint(p.model.name)
        if (checkpoint !== undefined) checkpoints.set(p, checkpoint)
      }
      // After the checkpoints, which other servers may be moving.
      endAtStart = await events.lastPosition()
      // Cached, because most models have the same checkpoint.
      const others = new Map<string, boolean>()
      for (const [{ model }, checkpoint] of checkpoints) {
        const { position } = checkpoint
        const place = `${position} ${checkpoint.event}`
        const isBehind = position > endAtStart
        const isOther = isBehind || (others.get(place) ?? (await isOfAnotherLog(events, checkpoint)))
        others.set(place, isOther)
        if (!isOther) continue
        // The log was truncated or is an older copy, which may have grown since. Read models would silently skip new
        // events up to the checkpoint.
        const problem = isBehind
          ? `it ends at position ${endAtStart}, and the read model ${model.name} holds events up to ${position}`
          : `it has another event at position ${position}, and the read model ${model.name} holds the events of another log up to there`
        throw new BrokenFile('the log', `${problem}. ${WHAT_TO_DO}`)
      }
      return checkpoints
    },

    /** Continues a read model at its checkpoint, if this version of the fold wrote it. */
    async begin(p: Progress, checkpoint: Checkpoint | undefined): Promise<void> {
      const { name, version, collection } = p.model
      // Another server may have written since.
      documents.forget(collection)
      repeatedUpTo = await events.lastPosition()
      if (checkpoint?.version === version) {
        const { position, event } = checkpoint
        Object.assign(p, { position, ...(event !== undefined && { event }) })
        positions.markSaved(name, p.position)
        return
      }
      // The fold is new or has changed: rebuild its documents from the first event.
      if (checkpoint !== undefined)
        log.info({ model: name }, 'the read model has changed: rebuilding its documents from the log')
      await views.clear(collection)
      await positions.write([], new Map([[name, { position: LOG_START, version }]]))
      p.position = LOG_START
      // Only a log with `problems` can lose events; the embedded one cannot.
      if (events.problems !== undefined) gaps ??= createGaps()
    },

    /** Logs the gaps when the rebuilt models have all events that the log had at the start. */
    passed(batch: readonly RecordedEvent[], position: Position): void {
      if (gaps === undefined) return
      for (const event of batch) gaps.next(event)
      if (position < endAtStart) return
      const lacks = gaps.found()
      if (lacks.length > 0)
        log.warn({ lacks }, `the log lacks, and so do the read models: ${lacks.join('; ')}`)
      gaps = undefined
    },
  }
}
