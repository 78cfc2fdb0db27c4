/**
 * Finds streams that EventStoreDB no longer returns, or returns only in part, after a deletion, `$maxCount` or `$tb`.
 * Their events stay in `$all` until a scavenge, but commands do not see them.
 */
import { repairOfCut, repairOfDeleted } from '../../events/store/damage.ts'
import { type EventStore, StreamUnusable } from '../../events/store/event-store.ts'
import type { LogProblem } from '../../events/store/sqlite/check.ts'

/** Number of streams that are read concurrently. */
const CONCURRENCY = 32
/** Maximum number of reported streams. */
const MAX_REPORTED = 100

/** The first and the last revision of a stream that the whole log has. */
interface Ends {
  stream: string
  first: number
  last: number
  /** First revision of the stream after its deletion. */
  recreated?: number
}

/** Returns the problems of the first `MAX_REPORTED` streams that reads do not return completely. Reads one event per stream. */
export async function lostStreams(
  { readStream }: Pick<EventStore, 'readStream'>,
  streams: Iterable<Ends>,
  signal: AbortSignal | undefined,
): Promise<LogProblem[]> {
  const found: LogProblem[] = []
  let batch: Ends[] = []
  const check = async () => {
    signal?.throwIfAborted()
    const problems = await Promise.all(batch.map((ends) => problemOf({ readStream }, ends)))
    found.push(...problems.filter((problem) => problem !== undefined))
    batch = []
  }
  for (const ends of streams) {
    batch.push(ends)
    if (batch.length === CONCURRENCY) await check()
    if (found.length >= MAX_REPORTED) break
  }
  await check()
  return found.slice(0, MAX_REPORTED)
}

async function problemOf(
  { readStream }: Pick<EventStore, 'readStream'>,
  { stream, first, last, recreated }: Ends,
): Promise<LogProblem | undefined> {
  if (recreated !== undefined) {
    const problem = `the stream was deleted in EventStoreDB, and written again from revision ${recreated}: earlier events are lost`
    return { stream, revision: recreated, problem }
  }
  try {
    for await (const { revision } of readStream(stream, { maxCount: 1 })) {
      if (revision <= first) return undefined
      const cut =
        revision === first + 1 ? `revision ${first} is` : `revisions ${first} to ${revision - 1} are`
      const problem = `${cut} cut off ($maxCount, $tb, or a deletion)`
      return { stream, revision: first, problem, repair: repairOfCut(stream) }
    }
    const problem = `the stream is deleted: it had events up to revision ${last}`
    return { stream, revision: last, problem, repair: repairOfDeleted(stream) }
  } catch (error) {
    if (error instanceof StreamUnusable) {
      const repair = error.repair !== undefined && { repair: error.repair }
      return { stream, revision: last, problem: error.message, ...repair }
    }
    throw error
  }
}
