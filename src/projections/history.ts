/**
 * An index of the history: one small document per event, with its actor, time and repository. The events themselves
 * stay in the log, and queries read them there by their positions.
 */
import type { DomainEvent, Recorded } from '../events/domain-events.ts'
import type { EventMetadata, Position } from '../events/event-store.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface HistoryDocument {
  position: Position
  /** `NO_REPOSITORY` for an event that belongs to no repository. */
  repoId: number
  type: string
  /** The login in lower case; empty for the server itself. */
  actor: string
  /** Milliseconds since 1970. */
  at: number
  /** Whether only admins of the repository may see it. */
  adminsOnly: boolean
}

/** For events about accounts, organizations and their labels. They appear only in the history of the server. */
export const NO_REPOSITORY = 0

export const history: Collection<HistoryDocument> = {
  name: 'history',
  indexes: [
    [['position', 1]],
    [
      ['repoId', 1],
      ['position', 1],
    ],
    [
      ['repoId', 1],
      ['adminsOnly', 1],
      ['position', 1],
    ],
    [
      ['repoId', 1],
      ['type', 1],
      ['position', 1],
    ],
    [
      ['repoId', 1],
      ['actor', 1],
      ['position', 1],
    ],
    [
      ['repoId', 1],
      ['actor', 1],
      ['adminsOnly', 1],
      ['position', 1],
    ],
  ],
  arrays: [],
}

/** Numbers, claims and read marks: internal events that tell a reader nothing. */
const NOT_IN_HISTORY: ReadonlySet<DomainEvent['type']> = new Set([
  'NumberTaken',
  'ClaimTaken',
  'ClaimReleased',
  'CreationAbandoned',
  'IssueRead',
])

/** Events about access and branch protection. Only admins of the repository may see these settings. */
const FOR_ADMINS: ReadonlySet<string> = new Set<DomainEvent['type']>([
  'CollaboratorSet',
  'CollaboratorRemoved',
  'BranchProtectionSet',
  'BranchProtectionRemoved',
])

/** Whether only admins of their repository may see events of a type. */
export const isForAdmins = (type: string) => FOR_ADMINS.has(type)

/** Whether an event is part of the history of its repository, or of the server. */
export function isInHistory({ type }: Pick<DomainEvent, 'type'>): boolean {
  return !NOT_IN_HISTORY.has(type)
}

/** The repository that an event belongs to, or `NO_REPOSITORY`. */
export function repositoryOf({ data }: DomainEvent): number {
  if ('repoId' in data) return data.repoId
  return 'scope' in data && data.scope.kind === 'repository' ? data.scope.repoId : NO_REPOSITORY
}

/** The actor of an event, as documents store it. */
export const actorOf = ({ actor }: EventMetadata) => (actor === null ? '' : actorKey(actor.login))
export const actorKey = (login: string) => login.toLowerCase()

export const historyFold: Fold<HistoryDocument> = {
  collection: history,
  version: 2,
  touches: (event) => (isInHistory(event) ? [`${event.position}`] : []),
  evolve: (_, event) => historyDocument(event),
}

function historyDocument(event: Recorded<DomainEvent>): HistoryDocument {
  const { position, type, metadata } = event
  return {
    position,
    repoId: repositoryOf(event),
    type,
    actor: actorOf(metadata),
    at: Date.parse(metadata.at),
    adminsOnly: isForAdmins(type),
  }
}

export const historyModel = readModel(historyFold)
