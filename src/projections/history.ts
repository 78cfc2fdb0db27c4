/**
 * What happened, one small document for each event that tells something: by whom, when, in which repository. The
 * events themselves stay in the log and are read from there by their positions.
 */
import type { DomainEvent, Recorded } from '../events/domain-events.ts'
import type { EventMetadata, Position } from '../events/event-store.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface HistoryDocument {
  position: Position
  /** `NO_REPOSITORY` for what belongs to none. */
  repoId: number
  type: string
  /** Login in lower case; empty for the server itself. */
  actor: string
  /** Milliseconds since 1970. */
  at: number
  /** Whether only admins of the repository may see it. */
  adminsOnly: boolean
}

/** Accounts, organizations, their labels: what the server's history alone tells. */
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

/** Numbers, claims and read marks: bookkeeping, which tells a reader nothing new. */
const NOT_IN_HISTORY: ReadonlySet<DomainEvent['type']> = new Set([
  'NumberTaken',
  'ClaimTaken',
  'ClaimReleased',
  'CreationAbandoned',
  'IssueRead',
])

/** They tell who has access and how branches are protected, which only those who set it may know. */
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

/** As documents name who did it. */
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
