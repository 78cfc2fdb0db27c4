/** The events that came lately, for read models that another server writes: which documents it has changed. */
import { LOG_START, type Position } from '../../events/store/event-store.ts'
import type { ReadModel } from '../projector/read-model.ts'
import { eventsFor, type ReadBatch } from '../projector/readable-events.ts'
import type { Touched } from '../store/read-store.ts'
import { roughSize } from '../views/rough-size.ts'

/**
 * The most events that are kept, and about the most characters of them. Without events, all documents of a model count as
 * changed.
 */
const MAX_EVENTS = 20_000
const MAX_CHARACTERS = 32 * 1024 * 1024

export function createRecentBatches() {
  let batches: { read: ReadBatch; last: Position; size: number }[] = []
  let kept = 0
  let characters = 0
  /** What came up to here is not kept. */
  let from: Position = LOG_START

  function dropFirst(): void {
    const first = batches.shift()
    if (first === undefined) return
    kept -= first.read.events.length
    characters -= first.size
    from = first.last
  }

  return {
    /** Begins anew: the next batch is the first after this position. */
    restart(after: Position): void {
      batches = []
      kept = 0
      characters = 0
      from = after
    },
    add(read: ReadBatch, last: Position): void {
      const size = read.events.reduce((sum, { data }) => sum + roughSize(data), 0)
      batches.push({ read, last, size })
      kept += read.events.length
      characters += size
      while (kept > MAX_EVENTS || characters > MAX_CHARACTERS) dropFirst()
    },
    /** Events up to this position are no longer needed. */
    trim(upTo: Position): void {
      while (batches[0] !== undefined && batches[0].last <= upTo) dropFirst()
    },
    /**
     * How far the events after a position touch no document of a model; and, if one does, the end of its batch. A model
     * that has all events up to `after` then has all up to there.
     */
    untouched(model: ReadModel, after: Position): { upTo: Position; touchedBy?: Position } {
      let upTo = after
      if (after < from) return { upTo }
      for (const { read, last } of batches) {
        if (last <= after) continue
        const { events, poison } = eventsFor(model, read, after)
        if (poison !== undefined || model.touched(events)?.length !== 0) return { upTo, touchedBy: last }
        upTo = last
      }
      return { upTo }
    },
    /** The documents of a model that events after one position, up to another, touch. Undefined: any document. */
    touched(model: ReadModel, after: Position, upTo: Position): Touched[] | undefined {
      if (after < from) return undefined
      const all: Touched[] = []
      for (const { read, last } of batches) {
        if (last <= after) continue
        const { events, poison } = eventsFor(model, read, after, upTo)
        // Its writer may be newer and know the event. Nobody knows here what it has changed.
        const touched = poison === undefined ? model.touched(events) : undefined
        if (touched === undefined) return undefined
        all.push(...touched)
      }
      return all
    },
  }
}
