/** Estimates how far readers of the log are behind its end, in events and in seconds. */
import { LOG_START, type Position } from '../events/store/event-store.ts'

/** The end of the log at a point in time. */
interface Mark {
  end: Position
  at: number
}

/** Minimum time between marks, in milliseconds. */
const MIN_INTERVAL_MS = 250
/** Maximum number of marks: a lag of more than an hour counts as an hour. */
const MAX_MARKS = 4 * 3600
/** Number of counted events after which older batches count half, so that the estimate follows changes. */
const COUNTED = 100_000

/**
 * Creates the lag estimate, without I/O, from the last known end of the log. With `isDense`, each position is an event.
 * Otherwise positions have gaps (EventStoreDB counts bytes), and the delivered batches give an estimate.
 */
export function createLag({
  isDense,
  now = () => performance.now(),
}: {
  isDense: boolean
  now?: () => number
}) {
  const marks: Mark[] = []
  let end = LOG_START
  let last: Position | undefined
  let events = 0
  let positions = 0

  return {
    /** Records that the log now reaches at least this position. */
    reaches(position: Position): void {
      if (position <= end) return
      end = position
      const at = now()
      const before = marks.at(-1)
      if (before !== undefined && at - before.at < MIN_INTERVAL_MS) before.end = position
      else marks.push({ end: position, at })
      if (marks.length > MAX_MARKS) marks.splice(0, MAX_MARKS / 4)
    },
    /** Records a batch of the subscription, in order. */
    delivered(batch: readonly { position: Position }[]): void {
      const from = last
      last = batch.at(-1)?.position ?? last
      if (from === undefined || last === undefined || last <= from) return
      if (events > COUNTED) {
        events /= 2
        positions /= 2
      }
      events += batch.length
      positions += last - from
    },
    end: () => end,
    /** Returns the known number of events after a position. */
    events(position: Position): number {
      if (position >= end) return 0
      const between = end - position
      return isDense || events === 0 ? between : Math.max(1, Math.round((between * events) / positions))
    },
    /** Seconds since the log ended at this position or before it; 0 when it still does. */
    seconds(position: Position): number {
      if (position >= end) return 0
      const first = marks.find((mark) => mark.end > position)
      return first === undefined ? 0 : (now() - first.at) / 1000
    },
  }
}
