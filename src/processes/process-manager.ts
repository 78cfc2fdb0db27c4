/**
 * Process managers: a process manager reacts to events with commands. It gets each event at least once, in order, and
 * after the read models. So its commands must be safe to repeat: their ids derive from the event.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import type { CommandContext } from '../commands/execute.ts'
import { decode } from '../events/codec.ts'
import type { DomainEvent, Envelope, Recorded } from '../events/domain-events.ts'
import { type EventStore, LOG_START, type Position } from '../events/event-store.ts'
import { type EventType, type Handlers, handle, handledBy } from '../events/handlers.ts'
import type { Projector } from '../projections/projector.ts'
import type { Checkpoint, ReadStore } from '../projections/read-store.ts'

export interface ProcessManager {
  name: string
  /** Whether it reacts to an event of this type. */
  handles(event: { type: string }): boolean
  react(event: Recorded<DomainEvent>, context: CommandContext): Promise<void>
}

/** Makes a process manager from its reactions by event type. */
export function processManager<T extends EventType>(
  name: string,
  reactions: Handlers<T, CommandContext, Promise<void>, Envelope>,
): ProcessManager {
  const handles = handledBy<T, Envelope>(reactions)
  return {
    name,
    handles,
    async react(event: { type: string }, context) {
      if (handles(event)) await handle(reactions, context, event)
    },
  }
}

interface ProcessRunner {
  start(): Promise<void>
  stop(): Promise<void>
  position(): Position
}

const RETRY_MS = [100, 500, 2000, 5000]
const VERSION = 1
const CHECKPOINT_EVERY = 1000

/** The context of a command that reacts to an event: with the actor and the correlation id of the event. */
export function contextOf(event: Recorded<DomainEvent>): CommandContext {
  return {
    actor: event.metadata.actor,
    at: new Date().toISOString(),
    correlationId: event.metadata.correlationId,
    causationId: event.id,
    retry: { namespace: event.id, digest: event.id },
    written: LOG_START,
  }
}

const checkpointName = (manager: string) => `process_${manager}`

/** The checkpoint of a process that has reacted to all events up to a position. */
export function processCheckpoint(manager: string, position: Position): [name: string, Checkpoint] {
  return [checkpointName(manager), { position, version: VERSION }]
}

export function createProcessRunner(
  log: FastifyBaseLogger,
  events: EventStore,
  checkpoints: ReadStore,
  projector: Projector,
  manager: ProcessManager,
): ProcessRunner {
  const stopping = new AbortController()
  const { signal } = stopping
  const name = checkpointName(manager.name)
  let position = LOG_START
  let passed = 0
  let following: Promise<void> = Promise.resolve()

  /** Retries after a failure. After the last retry the failure is logged and the next event follows. */
  async function reactTo(event: Recorded<DomainEvent>): Promise<void> {
    for (const wait of [...RETRY_MS, undefined]) {
      try {
        return await manager.react(event, contextOf(event))
      } catch (error) {
        if (signal.aborted) throw error
        const given = wait === undefined
        log[given ? 'error' : 'warn'](
          { err: error, process: manager.name, position: event.position },
          given ? 'a process gives up on an event' : 'a process failed on an event and tries again',
        )
        if (!given) await delay(wait, undefined, { signal })
      }
    }
  }

  async function follow(): Promise<void> {
    while (!signal.aborted) {
      try {
        for await (const batch of events.subscribe({ after: position, signal })) {
          for (const recorded of batch) {
            const event = decode(recorded)
            passed += 1
            if (manager.handles(event)) {
              while (!signal.aborted && !(await projector.waitFor(event.position, 1000)));
              await reactTo(event)
              passed = CHECKPOINT_EVERY
            }
            position = recorded.position
            if (signal.aborted) break
          }
          // To skip an event again is cheap. So each event with a reaction is worth a write of the checkpoint, and
          // the others only once for many.
          if (passed < CHECKPOINT_EVERY) continue
          await checkpoints.apply([], new Map([processCheckpoint(manager.name, position)]))
          passed = 0
        }
      } catch (error) {
        if (signal.aborted) return
        log.warn(
          { err: error, process: manager.name },
          'a process lost its connection to a store and tries again',
        )
        await delay(500, undefined, { signal }).catch(() => {})
      }
    }
  }

  return {
    async start() {
      position = (await checkpoints.checkpoint(name))?.position ?? LOG_START
      following = follow()
    },
    async stop() {
      stopping.abort()
      await following
    },
    position: () => position,
  }
}
