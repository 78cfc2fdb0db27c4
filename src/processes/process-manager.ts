/**
 * Process managers: a process manager reacts to events with commands. It gets each event at least once, in order, and
 * after the read models. So its commands must be safe to repeat: their ids derive from the event.
 */
import { type CommandContext, newContext } from '../commands/execution/execute.ts'
import type { DomainEvent, Envelope, Recorded } from '../events/domain-events.ts'
import { type EventType, type Handlers, handle, handledBy } from '../events/handlers.ts'
import type { Position } from '../events/store/event-store.ts'
import type { Checkpoint, ReadStore } from '../projections/store/read-store.ts'
import type { Services } from '../services/services.ts'

/** How far a process is. */
export interface ProcessStatus {
  name: string
  position: Position
  /** Why the process stopped, or what it waits for; absent while it runs. */
  stopped?: string
}

/**
 * The incarnation of this node that runs a process; undefined when another node may run it. When it is another one than
 * before, others may have run the process in between.
 */
export type Lease = () => string | undefined

/** The names of all processes. A process keeps its checkpoint under its name. */
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
   * Whether there is anything to do about an event that it handles. Asked when the read models have passed the event. If
   * not, it is like an event that it does not handle: the checkpoint need not follow. Without this, there always is.
   */
  concerns?(event: Recorded<DomainEvent>): boolean | Promise<boolean>
  react(event: Recorded<DomainEvent>, context: CommandContext): Promise<void>
}

/** Makes a process manager from its reactions by event type. */
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

/** The context of a command that reacts to an event: with the actor and the correlation id of the event. */
export function contextOf(event: Recorded<DomainEvent>): CommandContext {
  const { id, metadata } = event
  const retry = { namespace: id, digest: id }
  return { ...newContext(metadata.actor, metadata.correlationId, id), retry }
}

/** What was older than this at the start is of the past. */
const MAX_AGE_MS = 24 * 60 * 60 * 1000

/** Whether nobody waits for what follows from an event: it came with an import. */
export function isHistorical(
  { startedAfter }: Pick<Services, 'startedAfter'>,
  { at }: CommandContext,
  { position, metadata }: Pick<Envelope, 'position' | 'metadata'>,
): boolean {
  return position <= startedAfter && Date.parse(at) - Date.parse(metadata.at) > MAX_AGE_MS
}

/** The version of all checkpoints of processes. */
const VERSION = 1

/** The name of the checkpoint of a process. */
export const checkpointName = (manager: ProcessName) => `process_${manager}`

/** The position up to which a process has reacted to all events; undefined when it never ran. */
export async function processPosition(
  checkpoints: ReadStore,
  manager: ProcessName,
): Promise<Position | undefined> {
  return (await checkpoints.checkpoint(checkpointName(manager)))?.position
}

/** The checkpoint of a process that has reacted to all events up to a position. */
export function processCheckpoint(manager: ProcessName, position: Position): [name: string, Checkpoint] {
  return [checkpointName(manager), { position, version: VERSION }]
}
