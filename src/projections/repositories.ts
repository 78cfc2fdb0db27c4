/** Repositories with what their page and every permission check need: settings, collaborators, counters. */
import type { AccountKind, Permission } from '../events/domain-events.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface RepositoryDocument {
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
  openPulls: number
  closedPulls: number
  createdAt: string
  updatedAt: string
}

export const repositories: Collection<RepositoryDocument> = {
  name: 'repositories',
  indexes: [[['key', 1]], [['ownerId', 1]]],
  arrays: [],
}

/** What a repository is found by, whatever case a client uses. */
export function repositoryKey(owner: string, name: string): string {
  return `${owner}/${name}`.toLowerCase()
}

export const repositoryFold: Fold<RepositoryDocument> = {
  collection: repositories,
  version: 1,
  touches(event) {
    switch (event.type) {
      case 'RepositoryCreated':
      case 'RepositoryEdited':
      case 'RepositoryDeleted':
      case 'CollaboratorSet':
      case 'CollaboratorRemoved':
      case 'RefsUpdated':
      case 'PullRequestOpened':
      case 'PullRequestMerged':
        return [`${event.data.repoId}`]
      default:
        return []
    }
  },
  evolve(repository, event) {
    const { at } = event.metadata
    if (event.type === 'RepositoryCreated') {
      const { repoId, owner, name, description, website, private: isPrivate, defaultBranch } = event.data
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
        empty: true,
        collaborators: {},
        openPulls: 0,
        closedPulls: 0,
        createdAt: at,
        updatedAt: at,
      }
    }
    if (repository === undefined) return undefined
    switch (event.type) {
      case 'RepositoryEdited': {
        const edited = { ...repository, ...event.data.changes, updatedAt: at }
        return { ...edited, key: repositoryKey(edited.ownerLogin, edited.name) }
      }
      case 'RepositoryDeleted':
        return undefined
      case 'CollaboratorSet': {
        const { user, permission } = event.data
        const collaborators = {
          ...repository.collaborators,
          [`${user.id}`]: { login: user.login, permission },
        }
        return { ...repository, collaborators, updatedAt: at }
      }
      case 'CollaboratorRemoved': {
        const { [`${event.data.user.id}`]: _removed, ...collaborators } = repository.collaborators
        return { ...repository, collaborators, updatedAt: at }
      }
      case 'RefsUpdated': {
        const gained = event.data.refs.some(
          (update) => update.ref.startsWith('refs/heads/') && update.to !== null,
        )
        return { ...repository, empty: repository.empty && !gained, updatedAt: at }
      }
      case 'PullRequestOpened':
        return { ...repository, openPulls: repository.openPulls + 1, updatedAt: at }
      case 'PullRequestMerged':
        return {
          ...repository,
          openPulls: repository.openPulls - 1,
          closedPulls: repository.closedPulls + 1,
          updatedAt: at,
        }
      default:
        return repository
    }
  },
}

export const repositoryModel = readModel(repositoryFold)
