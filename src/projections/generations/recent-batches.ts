/** Recent events, which show the documents that other servers have changed in their read models. */
import { LOG_START, type Position } from '../../events/store/event-store.ts'
import type { ReadModel } from '../projector/read-model.ts'
import { eventsFor, type ReadBatch } from '../projector/readable-events.ts'
import type { Touched } from '../store/read-store.ts'
import { roughSize } from '../views/rough-size.ts'

/** Limits of the kept events, in events and characters. Without events, all documents of a model count as changed. */
const MAX_EVENTS = 20_000
const MAX_CHARACTERS = 32 * 1024 * 1024

export function createRecentBatches() {
  let batches: { read: ReadBatch; last: Position; size: number }[] = []
  let kept = 0
  let characters = 0
  /** Position of the last dropped event. */
  let from: Position = LOG_START

  function dropFirst(): void {
    const first = batches.shift()
    if (first === undefined) return
    kept -= first.read.events.length
    characters -= first.size
    from = first.last
  }

  return {
    /** Starts anew: the next batch is the first after this position. */
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
     * Returns the position up to which the events after `after` touch no document of a model and, if one does, the end
     * of its batch. A model with all events up to `after` then has all up to there.
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
    /**
     * Returns the documents of a model that the events after `after`, up to `upTo`, touch; undefined when it may be any
     * document.
     */
    touched(model: ReadModel, after: Position, upTo: Position): Touched[] | undefined {
      if (after < from) return undefined
      const all: Touched[] = []
      for (const { read, last } of batches) {
        if (last <= after) continue
        const { events, poison } = eventsFor(model, read, after, upTo)
        // The writer may be newer and know the event. This server cannot tell the changed documents.
        const touched = poison === undefined ? model.touched(events) : undefined
        if (touched === undefined) return undefined
        all.push(...touched)
      }
      return all
    },
  }
}
