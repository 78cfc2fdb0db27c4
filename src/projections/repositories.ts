/** Repositories with what their page and every permission check need: settings, collaborators, counters. */
import type {
  AccountKind,
  AccountRef,
  BranchProtection,
  MergeSettings,
  Permission,
} from '../events/domain-events.ts'
import { DEFAULT_MERGE_SETTINGS, withProtection } from '../events/repository-settings.ts'
import { isPullStream } from '../events/streams.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface RepositoryDocument extends MergeSettings {
  id: number
  ownerId: number
  ownerLogin: string
  ownerKind: AccountKind
  name: string
  /** `owner/name` in lower case: what the repository is found by. */
  key: string
  description: string
  website: string
  private: boolean
  defaultBranch: string
  /** True until the first branch. */
  empty: boolean
  /** By user id. */
  collaborators: Record<string, { login: string; permission: Permission }>
  /** In the order in which they are asked. */
  protections: BranchProtection[]
  /**
   * Accounts whose reading rights do not come from being a site admin: the owner, who stands for its members,
   * and the collaborators; `ANYONE` when the repository is public. Lists find by it what may be shown.
   */
  readers: number[]
  /** Of a fork: where it came from, also when that is gone. */
  parentId: number | null
  parent: { repoId: number; owner: AccountRef; name: string } | null
  forks: number
  openIssues: number
  closedIssues: number
  openPulls: number
  closedPulls: number
  createdAt: string
  updatedAt: string
}

/** Among the readers of a repository; no account has that id. */
export const ANYONE = 0

export const repositories: Collection<RepositoryDocument> = {
  name: 'repositories',
  indexes: [
    [['key', 1]],
    [['ownerId', 1]],
    [
      ['parentId', 1],
      ['ownerId', 1],
    ],
    [
      ['parentId', 1],
      ['id', 1],
    ],
  ],
  arrays: ['readers'],
}

/** What a repository is found by, whatever case a client uses. */
export function repositoryKey(owner: string, name: string): string {
  return `${owner}/${name}`.toLowerCase()
}

export const repositoryFold: Fold<RepositoryDocument> = {
  collection: repositories,
  version: 3,
  touches(event) {
    switch (event.type) {
      case 'RepositoryCreated': {
        const { repoId, parent } = event.data
        return parent === undefined ? [`${repoId}`] : [`${repoId}`, `${parent.repoId}`]
      }
      case 'RepositoryDeleted': {
        const { repoId, parentId } = event.data
        return parentId === undefined ? [`${repoId}`] : [`${repoId}`, `${parentId}`]
      }
      case 'RepositoryEdited':
      case 'CollaboratorSet':
      case 'CollaboratorRemoved':
      case 'BranchProtectionSet':
      case 'BranchProtectionRemoved':
      case 'RefsUpdated':
      case 'IssueOpened':
      case 'PullRequestOpened':
      case 'StatusChanged':
      case 'PullRequestMerged':
        return [`${event.data.repoId}`]
      default:
        return []
    }
  },
  evolve(repository, event, id) {
    const { at } = event.metadata
    if (event.type === 'RepositoryCreated' && id === `${event.data.repoId}`) {
      const { repoId, owner, name, description, website, private: isPrivate, defaultBranch } = event.data
      const { parent = null } = event.data
      return {
        id: repoId,
        ownerId: owner.id,
        ownerLogin: owner.login,
        ownerKind: owner.kind,
        name,
        key: repositoryKey(owner.login, name),
        description,
        website,
        private: isPrivate,
        defaultBranch,
        // An empty repository can't be forked, and the fork has its branches before it is known.
        empty: parent === null,
        collaborators: {},
        ...DEFAULT_MERGE_SETTINGS,
        protections: [],
        readers: isPrivate ? [owner.id] : [ANYONE, owner.id],
        parentId: parent?.repoId ?? null,
        parent,
        forks: 0,
        openIssues: 0,
        closedIssues: 0,
        openPulls: 0,
        closedPulls: 0,
        createdAt: at,
        updatedAt: at,
      }
    }
    if (repository === undefined) return undefined
    switch (event.type) {
      case 'RepositoryCreated':
        return { ...repository, forks: repository.forks + 1 }
      case 'RepositoryEdited': {
        const edited = { ...repository, ...event.data.changes, updatedAt: at }
        return withReaders({ ...edited, key: repositoryKey(edited.ownerLogin, edited.name) })
      }
      case 'RepositoryDeleted':
        return id === `${event.data.repoId}` ? undefined : { ...repository, forks: repository.forks - 1 }
      case 'CollaboratorSet': {
        const { user, permission } = event.data
        const collaborators = {
          ...repository.collaborators,
          [`${user.id}`]: { login: user.login, permission },
        }
        return withReaders({ ...repository, collaborators, updatedAt: at })
      }
      case 'CollaboratorRemoved': {
        const { [`${event.data.user.id}`]: _removed, ...collaborators } = repository.collaborators
        return withReaders({ ...repository, collaborators, updatedAt: at })
      }
      case 'BranchProtectionSet': {
        const protections = withProtection(repository.protections, event.data.protection)
        return { ...repository, protections, updatedAt: at }
      }
      case 'BranchProtectionRemoved': {
        const protections = repository.protections.filter(({ rule }) => rule !== event.data.rule)
        return { ...repository, protections, updatedAt: at }
      }
      case 'RefsUpdated': {
        const gained = event.data.refs.some(
          (update) => update.ref.startsWith('refs/heads/') && update.to !== null,
        )
        return { ...repository, empty: repository.empty && !gained, updatedAt: at }
      }
      case 'IssueOpened':
        return { ...repository, openIssues: repository.openIssues + 1, updatedAt: at }
      case 'PullRequestOpened':
        return { ...repository, openPulls: repository.openPulls + 1, updatedAt: at }
      case 'StatusChanged':
        return isPullStream(event.stream)
          ? closedPulls(repository, event.data.closed ? 1 : -1, at)
          : closedIssues(repository, event.data.closed ? 1 : -1, at)
      case 'PullRequestMerged':
        return closedPulls(repository, 1, at)
      default:
        return repository
    }
  },
}

function withReaders(repository: RepositoryDocument): RepositoryDocument {
  const { private: isPrivate, ownerId, collaborators } = repository
  const given = [ownerId, ...Object.keys(collaborators).map(Number)]
  return { ...repository, readers: isPrivate ? given : [ANYONE, ...given] }
}

/** So many issues more are closed, and no longer open. */
function closedIssues(repository: RepositoryDocument, more: 1 | -1, updatedAt: string): RepositoryDocument {
  return {
    ...repository,
    openIssues: repository.openIssues - more,
    closedIssues: repository.closedIssues + more,
    updatedAt,
  }
}

/** So many pull requests more are closed, and no longer open. */
function closedPulls(repository: RepositoryDocument, more: 1 | -1, updatedAt: string): RepositoryDocument {
  return {
    ...repository,
    openPulls: repository.openPulls - more,
    closedPulls: repository.closedPulls + more,
    updatedAt,
  }
}

export const repositoryModel = readModel(repositoryFold)
