/**
 * Process managers react to events with commands. Each gets every event at least once, in order and after the read
 * models. So its commands must be idempotent: their ids derive from the event.
 */
import { type CommandContext, newContext } from '../commands/execution/command-context.ts'
import type { DomainEvent, Envelope, Recorded } from '../events/domain-events.ts'
import { type EventType, type Handlers, handle, handledBy } from '../events/handlers.ts'
import type { Position } from '../events/store/event-store.ts'
import type { Checkpoint, ReadStore } from '../projections/store/read-store.ts'
import type { Services } from '../services/services.ts'

/** Progress of a process. */
export interface ProcessStatus {
  name: string
  position: Position
  /** Reason for the stop or wait; absent while the process runs. */
  stopped?: string
}

/**
 * Returns the incarnation of this node that runs a process; undefined when another node may run it. After a change of
 * the incarnation, another node may have run the process in between.
 */
export type Lease = () => string | undefined

/** Names of all processes. The checkpoint of a process has its name. */
export const PROCESSES = [
  'pull_heads',
  'scheduled_merges',
  'head_branches',
  'attachment_removal',
  'deleted_repositories',
  'deleted_issues',
  'owner_visibility',
  'deleted_users',
  'lost_access',
  'transfers',
  'released_tags',
  'default_branches',
  'mentions',
  'references',
  'maintenance',
  'lfs_objects',
  'webhooks',
] as const

type ProcessName = (typeof PROCESSES)[number]

export interface ProcessManager {
  name: ProcessName
  /** Whether it reacts to an event of this type. */
  handles(event: { type: string }): boolean
  /**
   * Whether the process must act on an event that it handles; by default it must. Called when the read models have
   * passed the event. The checkpoint need not follow an event that returns false.
   */
  concerns?(event: Recorded<DomainEvent>): boolean | Promise<boolean>
  react(event: Recorded<DomainEvent>, context: CommandContext): Promise<void>
}

/** Creates a process manager from its reactions by event type. */
export function processManager<T extends EventType>(
  name: ProcessName,
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

/** Returns the context of a command that reacts to an event, with the event's actor and correlation id. */
export function contextOf(event: Recorded<DomainEvent>): CommandContext {
  const { id, metadata } = event
  const retry = { namespace: id, digest: id }
  return { ...newContext(metadata.actor, metadata.correlationId, id), retry }
}

/** Minimum age of a historical event, in milliseconds. */
const MIN_AGE_MS = 24 * 60 * 60 * 1000

/** Whether the event is older than a day and was in the log at the start, as after an import: it causes no notifications. */
export function isHistorical(
  { startedAfter }: Pick<Services, 'startedAfter'>,
  { at }: CommandContext,
  { position, metadata }: Pick<Envelope, 'position' | 'metadata'>,
): boolean {
  return position <= startedAfter && Date.parse(at) - Date.parse(metadata.at) > MIN_AGE_MS
}

/** The version of all checkpoints of processes. */
const VERSION = 1

export const checkpointName = (manager: ProcessName) => `process_${manager}`

/** Returns the position up to which a process has reacted to all events; undefined when it never ran. */
export async function processPosition(
  checkpoints: ReadStore,
  manager: ProcessName,
): Promise<Position | undefined> {
  return (await checkpoints.checkpoint(checkpointName(manager)))?.position
}

/** Returns the checkpoint of a process that has reacted to all events up to a position. */
export function processCheckpoint(manager: ProcessName, position: Position): [name: string, Checkpoint] {
  return [checkpointName(manager), { position, version: VERSION }]
}
