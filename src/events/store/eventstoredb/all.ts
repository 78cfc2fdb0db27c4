/** Reads and follows `$all` of EventStoreDB: Mergelog's events of all streams, skipping those of other applications. */
import { eventTypeFilter, type RecordedEvent as ServerEvent } from '@eventstore/db-client'
import {
  LOG_START,
  type Position,
  type ReadAllOptions,
  type RecordedEvent,
  StoreUnavailable,
  type SubscribeOptions,
} from '../event-store.ts'
import { BATCH_SIZE, type ReadLimits, readBatches, SERVER_PAGE } from './batches.ts'
import type { Client } from './client.ts'
import { SubscriptionDropped } from './errors.ts'
import {
  isDamaged,
  isSystemType,
  MOST,
  NO_SYSTEM_EVENTS,
  toPassedOver,
  toReadPosition,
  toRecorded,
  toSafe,
} from './events.ts'
import { type createSameLog, firstFrom } from './same-log.ts'

/** Maximum page size of a read that searches few of Mergelog's events among many others. */
const LARGEST_PAGE = 4096

/**
 * Upper bound of system events that a subscription can pass without a checkpoint. The server sends one after each 32
 * events, but none for its last page: some 64 events.
 */
const MAX_UNREPORTED = 128

/** Number of consecutive drops without progress after which a subscription fails. */
const MAX_DROPS = 5

/**
 * Reports the observed log to `sameLog`. Calls `followed` with each delivered event, and `damaged` with each damaged event
 * that is skipped.
 */
export function createAllReads(
  client: () => Client,
  reading: ReadLimits,
  sameLog: ReturnType<typeof createSameLog>,
  followed: (event: RecordedEvent) => void,
  damaged: (event: ServerEvent) => void,
) {
  const readingAll = { ...reading, what: 'to read $all' }

  async function* readAll(options: ReadAllOptions = {}): AsyncIterable<RecordedEvent> {
    const { direction = 'forwards', maxCount = MOST } = options
    const forwards = direction === 'forwards'
    const from = options.from ?? (forwards ? LOG_START : MOST)
    if (maxCount <= 0 || (!forwards && from <= LOG_START)) return
    let at: Position = from
    let left = maxCount
    // The server's count includes its system events and, forwards, the event at the start. The port's does not. Pages
    // grow, for logs with many events of other applications.
    for (let page = SERVER_PAGE; ; page = Math.min(page * 4, LARGEST_PAGE)) {
      const pageSize = Math.min(Math.max(left + 1, page), MOST)
      const start = at
      const open = () =>
        client().readAll({ direction, fromPosition: toReadPosition(start), maxCount: pageSize })
      let seen = 0
      for await (const batch of readBatches(open, (read) => read.cancel(), readingAll)) {
        for (const { event } of batch) {
          seen += 1
          if (event === undefined) continue
          at = toSafe(event.position.commit, 'position')
          const recorded = toRecorded(event)
          if (at === start) continue
          if (recorded === undefined) {
            if (options.passedOver !== undefined && !isSystemType(event.type)) {
              options.passedOver(toPassedOver(event, at))
            }
            continue
          }
          yield recorded
          left -= 1
          if (left <= 0) return
        }
      }
      if (seen < pageSize) return
    }
  }

  async function* readPositions(positions: readonly Position[]): AsyncIterable<RecordedEvent> {
    const left = [...positions].reverse()
    let wanted = left.pop()
    while (wanted !== undefined) {
      // One read returns neighbouring positions. A position further away gets its own read.
      const pageSize = Math.min(Math.max(left.length + 1, SERVER_PAGE), BATCH_SIZE)
      const start: Position = wanted
      const open = () =>
        client().readAll({ direction: 'forwards', fromPosition: toReadPosition(start), maxCount: pageSize })
      for await (const batch of readBatches(open, (read) => read.cancel(), readingAll)) {
        for (const { event } of batch) {
          const recorded = event && toRecorded(event)
          if (recorded === undefined) continue
          while (wanted !== undefined && wanted < recorded.position) wanted = left.pop()
          if (wanted !== recorded.position) continue
          yield recorded
          wanted = left.pop()
        }
        if (wanted === undefined) return
      }
      // This position has no event.
      if (wanted === start) wanted = left.pop()
    }
  }

  async function* subscribe(options: SubscribeOptions): AsyncIterable<RecordedEvent[]> {
    let reported: Position = options.after
    /** Start of the next subscription. */
    let after: Position = options.after
    let drops = 0
    function passed(position: Position): void {
      if (position <= reported) return
      reported = position
      drops = 0
      after = Math.max(after, position)
      options.passed?.(position)
    }
    for (;;) {
      try {
        for await (const batch of subscribeOnce({ ...options, after, passed })) {
          after = batch.at(-1)?.position ?? after
          yield batch
        }
        return
      } catch (error) {
        // Normal after a burst of events: a new subscription reads them from the log.
        if (!(error instanceof SubscriptionDropped) || drops >= MAX_DROPS) throw error
        drops += 1
      }
    }
  }

  async function* subscribeOnce(
    options: SubscribeOptions & { passed: (position: Position) => void },
  ): AsyncIterable<RecordedEvent[]> {
    const { signal, batchSize = BATCH_SIZE, unwanted, passed } = options
    const isWanted = (event: RecordedEvent | undefined): event is RecordedEvent =>
      event !== undefined && !unwanted?.has(event.type)
    let { after } = options
    // For events that its filter skips, the server sends checkpoints.
    let checkpoint: Position = LOG_START
    await sameLog.check()
    // The server begins after the first event that it finds there. After a scavenge this is a later event.
    const found = after > LOG_START ? await firstFrom(client(), readingAll, after) : undefined
    if (found !== undefined && found.position > after) {
      after = found.position
      const event = toRecorded(found.event)
      if (isWanted(event)) yield take([event])
      passed(after)
    }
    const open = (changed: () => void) => {
      const filter = eventTypeFilter({
        regex: NO_SYSTEM_EVENTS,
        checkpointReached: (_: unknown, { commit }: { commit: bigint }) => {
          checkpoint = Math.max(checkpoint, Number(commit))
          changed()
        },
      })
      return client().subscribeToAll(
        { fromPosition: toReadPosition(after), filter },
        { highWaterMark: batchSize },
      )
    }
    const drained = () => passed(checkpoint)
    const following = { ...readingAll, batchSize, signal, isSubscription: true, drained }
    for await (const batch of readBatches(open, (subscription) => subscription.unsubscribe(), following)) {
      const events = batch.map(({ event }) => event && recordedIn(event)).filter(isWanted)
      if (events.length > 0) yield take(events)
      const last = batch.at(-1)?.event?.position
      if (last !== undefined) passed(toSafe(last.commit, 'position'))
    }
    if (!signal.aborted) throw new StoreUnavailable('EventStoreDB ended the subscription')
  }

  function recordedIn(event: ServerEvent): RecordedEvent | undefined {
    const recorded = toRecorded(event)
    if (recorded === undefined && isDamaged(event)) damaged(event)
    return recorded
  }

  function take(events: RecordedEvent[]): RecordedEvent[] {
    for (const event of events) {
      sameLog.seen(event)
      followed(event)
    }
    return events
  }

  async function lastPosition(): Promise<Position> {
    let position: Position = LOG_START
    let seen = 0
    const open = () =>
      client().readAll({ direction: 'backwards', fromPosition: 'end', maxCount: MAX_UNREPORTED })
    for await (const batch of readBatches(open, (read) => read.cancel(), readingAll)) {
      for (const { event } of batch) {
        seen += 1
        if (event === undefined) continue
        position = toSafe(event.position.commit, 'position')
        if (isSystemType(event.type)) continue
        await sameLog.checkEnd(position)
        sameLog.seen({ id: event.id, position })
        return position
      }
    }
    const end = seen < MAX_UNREPORTED ? LOG_START : position
    await sameLog.checkEnd(end)
    return end
  }

  return { readAll, readPositions, subscribe, lastPosition }
}
