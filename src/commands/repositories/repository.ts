/** The repository aggregate: settings and collaborators. Pure. */
import type {
  AccountKind,
  AccountRef,
  Permission,
  RepositoryEvent,
  RepositorySettings,
} from '../../events/domain-events.ts'
import type { Decider, Decision } from '../execute.ts'
import { refuse } from '../refusal.ts'

export type RepositoryState =
  | { status: 'none' }
  | {
      status: 'active'
      id: number
      owner: AccountRef & { kind: AccountKind }
      settings: RepositorySettings
      collaborators: Readonly<Record<string, Permission>>
    }
  | { status: 'deleted' }

export const repositoryDecider: Decider<RepositoryState, RepositoryEvent> = {
  initialState: { status: 'none' },
  snapshots: new WeakMap(),
  handles: {
    RepositoryCreated: true,
    RepositoryEdited: true,
    RepositoryDeleted: true,
    CollaboratorSet: true,
    CollaboratorRemoved: true,
  },
  evolve(state, event) {
    if (event.type === 'RepositoryCreated') {
      const { repoId, owner, name, description, website, private: isPrivate, defaultBranch } = event.data
      const settings = { name, description, website, private: isPrivate, defaultBranch }
      return { status: 'active', id: repoId, owner, settings, collaborators: {} }
    }
    if (state.status !== 'active') return state
    switch (event.type) {
      case 'RepositoryEdited':
        return { ...state, settings: { ...state.settings, ...event.data.changes } }
      case 'RepositoryDeleted':
        return { status: 'deleted' }
      case 'CollaboratorSet':
        return {
          ...state,
          collaborators: { ...state.collaborators, [`${event.data.user.id}`]: event.data.permission },
        }
      case 'CollaboratorRemoved': {
        const { [`${event.data.user.id}`]: _removed, ...collaborators } = state.collaborators
        return { ...state, collaborators }
      }
    }
  },
}

const gone = refuse.notFound('repository not found')

/** A repository is made once; its name was claimed before. */
export function decideCreate(
  state: RepositoryState,
  created: { repoId: number; owner: AccountRef & { kind: AccountKind }; settings: RepositorySettings },
): Decision<RepositoryEvent> {
  if (state.status !== 'none') return refuse.conflict('the repository exists already')
  const { repoId, owner, settings } = created
  return [{ type: 'RepositoryCreated', data: { repoId, owner, ...settings } }]
}

/** Only what differs is recorded; an edit that changes nothing is no event. */
export function decideEdit(
  state: RepositoryState,
  wanted: Partial<RepositorySettings>,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const { settings } = state
  const changes: Partial<RepositorySettings> = {}
  if (wanted.name !== undefined && wanted.name !== settings.name) changes.name = wanted.name
  if (wanted.description !== undefined && wanted.description !== settings.description) {
    changes.description = wanted.description
  }
  if (wanted.website !== undefined && wanted.website !== settings.website) changes.website = wanted.website
  if (wanted.private !== undefined && wanted.private !== settings.private) changes.private = wanted.private
  if (wanted.defaultBranch !== undefined && wanted.defaultBranch !== settings.defaultBranch) {
    changes.defaultBranch = wanted.defaultBranch
  }
  if (Object.keys(changes).length === 0) return []
  return [{ type: 'RepositoryEdited', data: { repoId: state.id, changes } }]
}

export function decideDelete(state: RepositoryState): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const { id, owner, settings } = state
  return [
    {
      type: 'RepositoryDeleted',
      data: { repoId: id, owner: { id: owner.id, login: owner.login }, name: settings.name },
    },
  ]
}

/** The owner has every right already and can't be a collaborator as well. */
export function decideSetCollaborator(
  state: RepositoryState,
  user: AccountRef,
  permission: Permission,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  if (user.id === state.owner.id) return refuse.unprocessable('the owner can not be a collaborator')
  if (state.collaborators[`${user.id}`] === permission) return []
  return [{ type: 'CollaboratorSet', data: { repoId: state.id, user, permission } }]
}

/** Removing one who is none changes nothing, as in Gitea. */
export function decideRemoveCollaborator(
  state: RepositoryState,
  user: AccountRef,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  if (state.collaborators[`${user.id}`] === undefined) return []
  return [{ type: 'CollaboratorRemoved', data: { repoId: state.id, user } }]
}
