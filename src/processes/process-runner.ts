/**
 * Runs a process from its checkpoint, on one server at a time and event by event. A failure is retried. An unreadable
 * event stops the process.
 */
import { setTimeout as delay, setImmediate as nextIteration } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { releasableSignal } from '../concurrency/releasable-signal.ts'
import { decode, KNOWN_TYPES, UnreadableEvent } from '../events/codec.ts'
import type { DomainEvent, Recorded } from '../events/domain-events.ts'
import type { Membership, Nodes } from '../events/nodes/nodes.ts'
import { type EventStore, LOG_START, type Position } from '../events/store/event-store.ts'
import type { Projector } from '../projections/projector/projector.ts'
import { LeaseLost, type ReadStore, type SharedCheckpoints } from '../projections/store/read-store.ts'
import { BrokenFile } from '../storage/sqlite/sqlite.ts'
import {
  checkpointName,
  contextOf,
  type Lease,
  type ProcessManager,
  type ProcessStatus,
  processCheckpoint,
  processPosition,
} from './process-manager.ts'

/** Pauses before retries, in milliseconds. During an outage of a store, the last one repeats. */
const RETRY_MS: readonly number[] = [100, 500, 2000, 5000]
/** Maximum number of skipped events, and of milliseconds, between two checkpoints. */
const CHECKPOINT_EVERY = 1000
const CHECKPOINT_MS = 5000
const WAIT_MS = 1000

/**
 * Creates the runner of a process, which begins at `start`. `retryMs` are the pauses after failures, in milliseconds.
 */
export function createProcessRunner(
  log: FastifyBaseLogger,
  events: EventStore,
  checkpoints: ReadStore,
  projector: Pick<Projector, 'waitFor' | 'stopped' | 'position'>,
  manager: ProcessManager,
  membership: Membership & Pick<Nodes, 'onLost'>,
  retryMs = RETRY_MS,
) {
  const stopping = new AbortController()
  const { signal } = stopping
  let position = LOG_START
  let passed = 0
  let following: Promise<void> | undefined
  let stopped: string | undefined
  /** Position that all running read models had passed. */
  let projected = LOG_START
  /** Whether the subscription has skipped events since the last checkpoint, and the time of that checkpoint. */
  let isSkipped = false
  let movedAt = performance.now()
  let moving: Promise<void> = Promise.resolve()
  const name = checkpointName(manager.name)
  /** Types of events that the process ignores. It does not ignore unknown types, as of a newer version. */
  const unwanted = new Set(KNOWN_TYPES.filter((type) => !manager.handles({ type })))
  const { shared } = checkpoints
  /** Incarnation for which this server runs the process; undefined while another server does. */
  let holder: string | undefined
  /** Also ends the subscription when the server loses its membership: another one may run the process. */
  let losing = releasableSignal(signal)
  let unsubscribe = () => {}

  /** Waits until no other server runs the process, and continues at its checkpoint. */
  async function waitForLease(shared: SharedCheckpoints): Promise<void> {
    while (!signal.aborted) {
      const { id } = membership.self()
      const at = (await shared.read([name])).get(name)
      position = at?.position ?? LOG_START
      stopped = undefined
      const free = at?.holder === undefined || at.holder === id || (await membership.isGone(at.holder))
      const after = { ...processCheckpoint(manager.name, position)[1], holder: id }
      if (free && membership.isMember() && (await shared.take(name, at, after))) {
        losing.release()
        losing = releasableSignal(signal)
        holder = id
        return
      }
      await delay(WAIT_MS, undefined, { signal }).catch(() => {})
    }
  }

  const lease: Lease = () => {
    const { id } = membership.self()
    return shared === undefined || (holder === id && membership.isMember()) ? id : undefined
  }

  /** @throws LeaseLost when another server may run the process */
  function requireLease(): void {
    if (lease() === undefined) throw new LeaseLost([name])
  }

  async function moveCheckpoint(): Promise<void> {
    const moved = new Map([processCheckpoint(manager.name, position)])
    isSkipped = false
    movedAt = performance.now()
    if (holder === undefined) await checkpoints.apply([], moved)
    else await shared?.move(moved, holder)
  }

  /** Called when the subscription has skipped events up to this position. */
  function skipTo(at: Position): void {
    position = at
    isSkipped = true
    // Skipping events again is cheap, so the write is not awaited and its failure does no harm.
    if (performance.now() - movedAt > CHECKPOINT_MS) moving = moveCheckpoint().catch(() => {})
  }

  /**
   * Waits until the read models have passed the event. When a model has stopped before it, waits until the model is
   * rebuilt.
   */
  async function waitForModels(at: Position): Promise<void> {
    while (!signal.aborted) {
      const passed = await projector.waitFor(at, WAIT_MS)
      const models = projector.stopped()
      const behind = models.find((model) => model.position < at)
      if (behind === undefined) {
        stopped = undefined
        if (models.length === 0) projected = projector.position()
        if (passed) return
        continue
      }
      if (stopped === undefined) {
        stopped = `it waits for the read model ${behind.name}, which has stopped`
        log.error({ process: manager.name, position: at }, `the process has stopped: ${stopped}`)
      }
      if (passed) await delay(WAIT_MS, undefined, { signal })
    }
  }

  /** Waits until the process may act on the event. Resolves to whether it must act. */
  async function mustReact(event: Recorded<DomainEvent>): Promise<boolean> {
    if (event.position > projected) await waitForModels(event.position)
    if (signal.aborted) return false
    return manager.concerns === undefined || (await manager.concerns(event))
  }

  /** Whether the log can be read and the checkpoint written. Both fail in an outage, the write also with a full disk. */
  async function storesAnswer(): Promise<boolean> {
    return Promise.all([events.lastPosition(), moveCheckpoint()]).then(
      () => true,
      () => false,
    )
  }

  /**
   * Retries an event after a failure. After the last pause, logs the failure and continues, so that one event or one
   * busy stream does not block the others. Failures during an outage of a store do not count.
   */
  async function reactTo(event: Recorded<DomainEvent>): Promise<void> {
    let tries = 0
    for (;;) {
      // Another server may have taken the process while a store was away.
      requireLease()
      try {
        return await manager.react(event, contextOf(event))
      } catch (error) {
        if (signal.aborted || error instanceof LeaseLost) throw error
        const isAway = !(await storesAnswer())
        const wait = isAway ? retryMs.at(-1) : retryMs[tries]
        const at = { err: error, process: manager.name, position: event.position }
        if (wait === undefined) return log.error(at, 'a process gives up on an event')
        log.warn(at, 'a process failed on an event and tries again')
        if (isAway) stopped = 'it waits for a store that does not answer'
        else tries += 1
        await delay(wait, undefined, { signal })
      }
    }
  }

  async function follow(): Promise<void> {
    while (!signal.aborted) {
      try {
        if (shared !== undefined && holder === undefined) await waitForLease(shared)
        const options = { after: position, signal: losing.signal, unwanted, passed: skipTo }
        for await (const batch of events.subscribe(options)) {
          for (const recorded of batch) {
            const event = unwanted.has(recorded.type) ? undefined : decode(recorded)
            passed += 1
            const isToDo = event !== undefined && (await mustReact(event))
            if (signal.aborted) break
            if (isToDo) {
              await reactTo(event)
              stopped = undefined
              passed = CHECKPOINT_EVERY
            }
            position = recorded.position
            if (signal.aborted) break
            // Some reactions wait only for memory, and one push may bring fifty events.
            if (isToDo && recorded !== batch.at(-1)) await nextIteration()
          }
          // Skipping an event again is cheap: the checkpoint is written after each reaction, and once per many skipped
          // events.
          if (passed >= CHECKPOINT_EVERY) {
            await moveCheckpoint()
            passed = 0
          }
          // Return before the next batch is requested: the subscription would report the rest of this one as passed.
          if (signal.aborted) return
        }
        if (losing.signal.aborted) throw new LeaseLost([name])
      } catch (error) {
        if (signal.aborted) return
        if (error instanceof LeaseLost) {
          log.info({ process: manager.name }, 'another server may run the process now')
          holder = undefined
          continue
        }
        if (error instanceof UnreadableEvent || error instanceof BrokenFile) {
          // A retry cannot help, and the process may have to react to the event, so it is not skipped.
          stopped = error.message
          log.error({ err: error, process: manager.name }, `the process has stopped: ${stopped}`)
          // A newer server may know the event.
          if (holder !== undefined) await shared?.release(name, holder).catch(() => {})
          holder = undefined
          return
        }
        log.warn(
          { err: error, process: manager.name },
          'a process lost its connection to a store and tries again',
        )
        await delay(500, undefined, { signal }).catch(() => {})
      }
    }
  }

  return {
    /** Continues at the checkpoint. Once it follows the log, a further call changes nothing. */
    async start() {
      if (following !== undefined) return
      unsubscribe = membership.onLost((id) => {
        if (id === holder) losing.abort()
      })
      position = (await processPosition(checkpoints, manager.name)) ?? LOG_START
      following = follow()
    },
    async stop() {
      stopping.abort()
      unsubscribe()
      await following
      await moving
      // Saves the next start from skipping the same events again.
      if (isSkipped && (shared === undefined || holder !== undefined)) await moveCheckpoint().catch(() => {})
      // If this fails, another server takes the process when this server's membership expires.
      if (holder !== undefined) await shared?.release(name, holder).catch(() => {})
    },
    lease,
    status(): ProcessStatus {
      const at = { name: manager.name, position }
      return stopped === undefined ? at : { ...at, stopped }
    },
  }
}
