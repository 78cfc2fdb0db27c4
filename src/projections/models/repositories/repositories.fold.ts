/** Repositories with all data for their page and for permission checks: settings, collaborators, counters. */

import type { BranchProtection } from '../../../events/catalog/branches.ts'
import type { AccountKind, Permission, Visibility } from '../../../events/catalog/organizations.ts'
import type {
  MergeSettings,
  PendingTransfer,
  RepositorySettings,
} from '../../../events/catalog/repositories.ts'
import type { RecordedOf } from '../../../events/handlers.ts'
import { type Pins, withPins } from '../../../events/pins.ts'
import { DEFAULT_MERGE_SETTINGS, withProtection } from '../../../events/repository-settings.ts'
import { isPullStream } from '../../../events/streams.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { wordsOf } from '../issues/words.ts'
import { partsOf } from './name-parts.ts'

type Created = RecordedOf<'RepositoryCreated'>['data']

export interface RepositoryDocument extends RepositorySettings, MergeSettings {
  id: number
  ownerId: number
  ownerLogin: string
  ownerKind: AccountKind
  /** Visibility of the owner, which also limits a public repository. */
  ownerVisibility: Visibility
  /** `owner/name` in lower case, for look-ups. */
  key: string
  /** True until the first branch exists. */
  empty: boolean
  /** By user id. */
  collaborators: Record<string, { login: string; permission: Permission }>
  /** In the order of precedence. */
  protections: BranchProtection[]
  /**
   * Ids of the readers besides site admins: the owner (an organization stands for its members), collaborators and
   * teams; in a public repository also `ANYONE`, or `SIGNED_IN` when its owner is limited. Lists filter by it. It
   * agrees with `isOpenTo` in `access/visibility.ts`.
   */
  readers: number[]
  /** Ids with more permissions than the public: the owner and the collaborators. */
  granted: number[]
  /** Ids with permissions besides the owner: collaborators, and the organization for its members. */
  guests: number[]
  /** The ids of teams with this repository, without teams that have all repositories. */
  teams: number[]
  archived: boolean
  /** Null when it is not archived. */
  archivedAt: string | null
  template: boolean
  /** In lower case, sorted. */
  topics: string[]
  /** Keywords of the name and the topics. */
  nameParts: string[]
  /** Keywords of the name, the topics and the description. */
  allParts: string[]
  /** For a fork: the original, even when that is deleted. */
  parentId: number | null
  parent: NonNullable<Created['parent']> | null
  forks: number
  openIssues: number
  closedIssues: number
  openPulls: number
  closedPulls: number
  /** Number of published releases; absent before the first one. */
  releases?: number
  /** Absent before the first pin. */
  pins?: Pins
  /** Absent or null without a pending transfer. A recipient that is a user may read the repository. */
  transfer?: PendingTransfer | null
  /** The account that the repository is offered to, for look-ups. */
  recipientId?: number | null
  stars: number
  watchers: number
  createdAt: string
  updatedAt: string
}

/** Stands in `readers` for all clients. No account has this id. */
export const ANYONE = 0
/** Stands in `readers` for all signed-in users. */
export const SIGNED_IN = -1

/**
 * Stands in `readers` for the members of the organization's teams that have all its repositories. No account and no team
 * has this id.
 */
export const allRepositoriesOf = (organizationId: number) => -1 - organizationId

/** Returns the look-up key of a repository, which ignores case. */
export function repositoryKey(owner: string, name: string): string {
  return `${owner}/${name}`.toLowerCase()
}

export const repositoryFold: Fold<RepositoryDocument> = foldOf({
  name: 'repositories',
  indexes: [
    { key: 1 },
    { ownerId: 1 },
    { parentId: 1, ownerId: 1 },
    { parentId: 1, id: 1 },
    { createdAt: 1 },
    { updatedAt: 1 },
    { forks: 1 },
    { stars: 1 },
    { id: 1 },
    { recipientId: 1 },
  ],
  arrays: ['readers', 'granted', 'guests', 'teams', 'topics', 'nameParts', 'allParts'],
  version: 9,
  ids({ data }) {
    const parentId = 'parent' in data ? data.parent?.repoId : 'parentId' in data ? data.parentId : undefined
    return parentId === undefined ? [`${data.repoId}`] : [`${data.repoId}`, `${parentId}`]
  },
  becomes: {
    RepositoryCreated: (before, { data, metadata }, id) =>
      id === `${data.repoId}` ? created(data, metadata.at) : withForks(before, 1),
    RepositoryDeleted: (before, { data }, id) =>
      id === `${data.repoId}` ? undefined : withForks(before, -1),
  },
  onEveryChange: ({ metadata }) => ({ updatedAt: metadata.at }),
  changes: {
    RepositoryEdited: (repository, { data: { changes } }) => ({
      ...changes,
      // Only when needed: it takes longer than the other fields.
      ...((changes.name !== undefined || changes.description !== undefined) &&
        searchableIn({ ...repository, ...changes })),
    }),
    // The repository itself has not changed, so `updatedAt` stays.
    OwnerVisibilityChanged: ({ updatedAt }, { data }) => ({ ownerVisibility: data.visibility, updatedAt }),
    CollaboratorSet: ({ collaborators }, { data: { user, permission } }) => ({
      collaborators: { ...collaborators, [`${user.id}`]: { login: user.login, permission } },
    }),
    CollaboratorRemoved(repository, { data }) {
      const { [`${data.user.id}`]: _removed, ...collaborators } = repository.collaborators
      return { collaborators }
    },
    BranchProtectionSet: ({ protections }, { data }) => ({
      protections: withProtection(protections, data.protection),
    }),
    BranchProtectionRemoved: ({ protections }, { data }) => ({
      protections: protections.filter(({ rule }) => rule !== data.rule),
    }),
    TeamRepositoryAdded: ({ teams, updatedAt }, { data: { team } }) => ({
      teams: [...new Set([...teams, team.id])],
      updatedAt,
    }),
    TeamRepositoryRemoved: ({ teams, updatedAt }, { data: { team } }) => ({
      teams: teams.filter((id) => id !== team.id),
      updatedAt,
    }),
    ArchivedChanged: (_, { data: { archived }, metadata }) => ({
      archived,
      archivedAt: archived ? metadata.at : null,
    }),
    TemplateChanged: (_, { data }) => ({ template: data.template }),
    TopicsChanged: (repository, { data: { topics } }) => ({
      topics,
      ...searchableIn({ ...repository, topics }),
    }),
    TransferStarted: (_, { data: { sender, recipient, teamIds } }) => ({
      transfer: { sender, recipient, teamIds },
    }),
    TransferCanceled: () => ({ transfer: null }),
    // Teams of a former owner lose access. Events of their own add those of the new one.
    RepositoryTransferred: (_, { data: { owner, ownerVisibility } }) => ({
      ownerId: owner.id,
      ownerLogin: owner.login,
      ownerKind: owner.kind,
      ownerVisibility,
      teams: [],
      transfer: null,
    }),
    PinsChanged: ({ pins, updatedAt }, { data }) => ({ pins: withPins(pins, data), updatedAt }),
    ReleaseCreated: (repository, { data }) => withReleases(repository, data.draft ? 0 : 1),
    ReleaseEdited: (repository, { data: { changes } }) =>
      withReleases(repository, changes.draft === undefined ? 0 : changes.draft ? -1 : 1),
    ReleaseDeleted: (repository, { data }) => withReleases(repository, data.draft ? 0 : -1),
    RefsUpdated: ({ empty }, { data }) => ({
      empty: empty && !data.refs.some(({ ref, to }) => ref.startsWith('refs/heads/') && to !== null),
    }),
    IssueOpened: ({ openIssues }) => ({ openIssues: openIssues + 1 }),
    IssueDeleted: ({ openIssues, closedIssues }, { data }) =>
      data.closed ? { closedIssues: closedIssues - 1 } : { openIssues: openIssues - 1 },
    PullRequestOpened: ({ openPulls }) => ({ openPulls: openPulls + 1 }),
    StatusChanged(repository, { stream, data }) {
      const more = data.closed ? 1 : -1
      return isPullStream(stream) ? withClosedPulls(repository, more) : withClosedIssues(repository, more)
    },
    PullRequestMerged: (repository) => withClosedPulls(repository, 1),
    // Stars, watches and forks do not update a repository either.
    RepositoryStarred: ({ stars, updatedAt }) => ({ stars: stars + 1, updatedAt }),
    RepositoryUnstarred: ({ stars, updatedAt }) => ({ stars: stars - 1, updatedAt }),
    RepositoryWatched: ({ watchers, updatedAt }) => ({ watchers: watchers + 1, updatedAt }),
    RepositoryUnwatched: ({ watchers, updatedAt }) => ({ watchers: watchers - 1, updatedAt }),
  },
  derived: (repository) => ({
    key: repositoryKey(repository.ownerLogin, repository.name),
    recipientId: repository.transfer?.recipient.id ?? null,
    readers: readersOf(repository),
    ...grantsOf(repository),
  }),
})

const withReleases = ({ releases = 0 }: RepositoryDocument, more: number) => ({ releases: releases + more })

function created(data: Created, at: string): RepositoryDocument {
  const { repoId, owner, name, description, website, private: isPrivate, defaultBranch, parent = null } = data
  const { ownerVisibility = 'public' } = data
  const ownerOnly = { ownerId: owner.id, ownerKind: owner.kind, collaborators: {}, teams: [] }
  return {
    id: repoId,
    ownerId: owner.id,
    ownerLogin: owner.login,
    ownerKind: owner.kind,
    ownerVisibility,
    name,
    key: repositoryKey(owner.login, name),
    description,
    website,
    private: isPrivate,
    defaultBranch,
    // A fork is never empty: an empty repository cannot be forked, and the fork gets its branches before this event.
    empty: parent === null,
    collaborators: {},
    ...DEFAULT_MERGE_SETTINGS,
    protections: [],
    readers: readersOf({ private: isPrivate, ownerVisibility, ...ownerOnly }),
    ...grantsOf(ownerOnly),
    teams: [],
    archived: false,
    archivedAt: null,
    template: false,
    topics: [],
    ...searchableIn({ name, description, topics: [] }),
    parentId: parent?.repoId ?? null,
    parent,
    forks: 0,
    openIssues: 0,
    closedIssues: 0,
    openPulls: 0,
    closedPulls: 0,
    stars: 0,
    watchers: 0,
    createdAt: at,
    updatedAt: at,
  }
}

const withForks = (parent: RepositoryDocument | undefined, more: 1 | -1) =>
  parent && { ...parent, forks: parent.forks + more }

const PUBLIC_READERS = { public: [ANYONE], limited: [SIGNED_IN], private: [] } as const satisfies Record<
  Visibility,
  readonly number[]
>

type Granting = Pick<RepositoryDocument, 'ownerId' | 'ownerKind' | 'collaborators' | 'teams' | 'transfer'>

function readersOf({
  private: isPrivate,
  ownerVisibility,
  ...granting
}: Granting & Pick<RepositoryDocument, 'private' | 'ownerVisibility'>): number[] {
  const given = [...grantsOf(granting).granted]
  return isPrivate ? given : [...PUBLIC_READERS[ownerVisibility], ...given]
}

function grantsOf({ ownerId, ownerKind, collaborators, teams, transfer }: Granting) {
  const recipients = transfer?.recipient.kind === 'user' ? [transfer.recipient.id] : []
  const people = [...new Set([...Object.keys(collaborators).map(Number), ...recipients])]
  if (ownerKind === 'user') return { granted: [ownerId, ...people], guests: people }
  const granted = [ownerId, allRepositoriesOf(ownerId), ...people, ...teams]
  return { granted, guests: granted }
}

/** Maximum number of indexed words of a description. */
const MAX_DESCRIPTION_WORDS = 200

function searchableIn({
  name,
  description,
  topics,
}: Pick<RepositoryDocument, 'name' | 'description' | 'topics'>) {
  const nameParts = partsOf(name, ...topics)
  const words = wordsOf(description).slice(0, MAX_DESCRIPTION_WORDS)
  return { nameParts, allParts: [...new Set([...nameParts, ...words])] }
}

/** Counts one more closed issue and one less open issue (`more` is 1), or the reverse (-1). */
const withClosedIssues = ({ openIssues, closedIssues }: RepositoryDocument, more: 1 | -1) => ({
  openIssues: openIssues - more,
  closedIssues: closedIssues + more,
})

const withClosedPulls = ({ openPulls, closedPulls }: RepositoryDocument, more: 1 | -1) => ({
  openPulls: openPulls - more,
  closedPulls: closedPulls + more,
})
