/** Follows the log: reads its events in batches and passes them to the writer. Restarts after each failure. */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import type { EventStore, Position, RecordedEvent } from '../../events/store/event-store.ts'
import { readAhead } from '../../events/store/read-ahead.ts'
import { BrokenFile } from '../../storage/sqlite/sqlite.ts'
import type { SharedModels } from '../generations/shared-models.ts'
import { LeaseLost } from '../store/read-store.ts'
import { roughSize } from '../views/rough-size.ts'
import type { BatchWriter } from './batch-writer.ts'
import type { ModelStarts } from './model-starts.ts'
import type { Reach } from './reach.ts'

interface Following {
  log: FastifyBaseLogger
  events: EventStore
  reach: Reach
  starts: ModelStarts
  shared: SharedModels | undefined
  writer: BatchWriter
  /** Takes the models that no server writes any more. */
  takeModels(): Promise<void>
  /** Called when the models have reached a position. */
  moved(): void
  /** Aborts when the projector stops. */
  stopping: AbortSignal
}

const RETRY_MS = 500
const BATCH = 1000
/** Weight of a ref: an event changes a document for each of its refs, all in one write. */
const REF_WEIGHT = 2
/** Number of characters that weigh as much as a small event: waiting events are in memory. */
const EVENT_CHARACTERS = 16 * 1024
/** The weight of an event in small events. An event with members counts once for each of them. */
const weightOf = ({ data }: RecordedEvent) => {
  if ('refs' in data && Array.isArray(data.refs)) return Math.max(1, REF_WEIGHT * data.refs.length)
  if ('members' in data && Array.isArray(data.members)) return Math.max(1, data.members.length)
  return Math.max(1, roughSize(data) / EVENT_CHARACTERS)
}

export function createLogFollower(following: Following) {
  const { log, events, reach, starts, shared, writer, takeModels, moved, stopping } = following
  /** Undefined while the log is not followed. */
  let working: Promise<void> | undefined
  /** Ends the subscription, so that it restarts. */
  let restart = () => {}

  async function follow(): Promise<void> {
    while (!stopping.aborted) {
      const after = reach.passed()
      try {
        await followFrom(after)
        if (reach.running().length === 0 && shared === undefined) return
      } catch (error) {
        if (stopping.aborted) return
        if (error instanceof LeaseLost) {
          log.warn({ err: error }, 'another server writes the read models now')
          await takeModels().catch(() => {})
          await delay(RETRY_MS, undefined, { signal: stopping }).catch(() => {})
          continue
        }
        if (error instanceof BrokenFile) {
          // A retry cannot help. `/healthz` reports it, and queries still read the documents projected so far.
          for (const p of reach.running()) p.stopped = error.message
          log.error({ err: error }, 'the read models stopped at a broken log')
          return
        }
        log.warn({ err: error }, 'the projector lost a store and retries')
        await delay(RETRY_MS, undefined, { signal: stopping }).catch(() => {})
      }
    }
  }

  /** Follows the log until no read model runs. */
  async function followFrom(after: Position): Promise<void> {
    const ending = new AbortController()
    const { signal } = ending
    const batches = readAhead(events, {
      after,
      signal: AbortSignal.any([stopping, signal]),
      batchSize: BATCH,
      weightOf,
      passed(position) {
        reach.skippedUpTo(position)
        shared?.passed(position)
        moved()
        // The log may end with events of other applications.
        starts.passed([], reach.passed())
      },
    })
    shared?.restart(after)
    restart = () => ending.abort()
    try {
      for await (const batch of batches) {
        await writer.write(batch, signal)
        if (reach.running().length === 0 && shared === undefined) return
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }

  return {
    /** Starts to follow the log, if it is not followed already. */
    start(): void {
      working ??= follow().finally(() => {
        working = undefined
      })
    },
    /** Restarts from the models' positions. */
    restart: () => restart(),
    /** Resolves when the log is not followed any more. */
    ended: () => working,
  }
}
