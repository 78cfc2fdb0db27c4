/** The repository aggregate: settings and collaborators. Pure. */

import { refuse } from '../../errors/refusal.ts'
import type { BranchProtection } from '../../events/catalog/branches.ts'
import type { PinEvent } from '../../events/catalog/issues.ts'
import type { AccountKind, Permission, Visibility } from '../../events/catalog/organizations.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { ListingEvent, PendingTransfer, TransferEvent } from '../../events/catalog/repositories.ts'
import {
  MERGE_STYLES,
  type MergeSettings,
  type MergeStyle,
  type RepositorySettings,
  type RepositoryEvent as SettingsEvent,
} from '../../events/catalog/repositories.ts'
import type { TagProtection } from '../../events/catalog/tags.ts'
import { type Pins, withPins } from '../../events/pins.ts'
import { DEFAULT_MERGE_SETTINGS, withProtection } from '../../events/repository-settings.ts'
import { withTagProtection } from '../../projections/models/tags/tag-protections.fold.ts'
import { changedFields } from '../execution/changed-fields.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'
import { websiteProblem } from '../users/accounts/names.ts'
import { topicsSeen } from './topics.decider.ts'

/** Maximum number of collaborators: the document lists all, and is read for each request. */
export const MAX_COLLABORATORS = 1000

export type RepositoryEvent = SettingsEvent | ListingEvent | PinEvent | TransferEvent

export type RepositoryState =
  | { status: 'none' }
  | {
      status: 'active'
      id: number
      owner: AccountRef & { kind: AccountKind }
      ownerVisibility: Visibility
      /** The repository that this is a fork of. */
      parentId: number | null
      settings: RepositorySettings & MergeSettings
      collaborators: Readonly<Record<string, Permission>>
      protections: readonly BranchProtection[]
      tagProtections: readonly TagProtection[]
      archived: boolean
      template: boolean
      topics: readonly string[]
      /** Absent before the first pin. */
      pins?: Pins
      /** Null without a pending transfer. */
      transfer: PendingTransfer | null
    }
  | {
      status: 'deleted'
      parentId: number | null
      private: boolean
      ownerVisibility: Visibility
    }

export const repositoryDecider: Decider<RepositoryState, RepositoryEvent> = deciderOf({
  initialState: { status: 'none' },
  snapshots: snapshots(),
  becomes: {
    RepositoryCreated(_, { data }) {
      const { repoId: id, owner, name, description, website, private: isPrivate, defaultBranch } = data
      return {
        status: 'active',
        id,
        owner,
        ownerVisibility: data.ownerVisibility ?? 'public',
        parentId: data.parent?.repoId ?? null,
        settings: {
          name,
          description,
          website,
          private: isPrivate,
          defaultBranch,
          ...DEFAULT_MERGE_SETTINGS,
        },
        collaborators: {},
        protections: [],
        tagProtections: [],
        archived: false,
        template: false,
        topics: [],
        transfer: null,
      }
    },
    LeftDocumentsRemoved: (state) => state,
    RepositoryDeleted(state) {
      if (state.status !== 'active') return state
      const { parentId, settings, ownerVisibility } = state
      return { status: 'deleted', parentId, private: settings.private, ownerVisibility }
    },
  },
  exists: (state: RepositoryState) => state.status === 'active',
  changes: {
    RepositoryEdited: ({ settings }, { data }) => ({ settings: { ...settings, ...data.changes } }),
    OwnerVisibilityChanged: (_, { data }) => ({ ownerVisibility: data.visibility }),
    PinsChanged: ({ pins }, { data }) => ({ pins: withPins(pins, data) }),
    ArchivedChanged: (_, { data }) => ({ archived: data.archived }),
    TemplateChanged: (_, { data }) => ({ template: data.template }),
    TopicsChanged: (_, { data }) => ({ topics: data.topics }),
    TransferStarted: (_, { data: { sender, recipient, teamIds } }) => ({
      transfer: { sender, recipient, teamIds },
    }),
    TransferCanceled: () => ({ transfer: null }),
    RepositoryTransferred: (_, { data: { owner, ownerVisibility } }) => ({
      owner,
      ownerVisibility,
      transfer: null,
    }),
    // The edit in the same append changes the name.
    RepositoryRenamed: () => ({}),
    CollaboratorSet: ({ collaborators }, { data }) => ({
      collaborators: { ...collaborators, [`${data.user.id}`]: data.permission },
    }),
    CollaboratorRemoved(state, { data }) {
      const { [`${data.user.id}`]: _removed, ...collaborators } = state.collaborators
      return { collaborators }
    },
    BranchProtectionSet: ({ protections }, { data }) => ({
      protections: withProtection(protections, data.protection),
    }),
    BranchProtectionRemoved: ({ protections }, { data }) => ({
      protections: protections.filter(({ rule }) => rule !== data.rule),
    }),
    TagProtectionSet: ({ tagProtections }, { data }) => ({
      tagProtections: withTagProtection(tagProtections, data.protection),
    }),
    TagProtectionRemoved: ({ tagProtections }, { data }) => ({
      tagProtections: tagProtections.filter(({ id }) => id !== data.id),
    }),
  },
})

/** Returns the facts that make an active or deleted repository public or hidden. */
export function openness(state: Exclude<RepositoryState, { status: 'none' }>) {
  const { ownerVisibility } = state
  return { private: state.status === 'active' ? state.settings.private : state.private, ownerVisibility }
}

const gone = refuse.notFound('repository not found')

/** Creates the repository. Its name is claimed before. */
export function decideCreate(
  state: RepositoryState,
  created: {
    repoId: number
    owner: AccountRef & { kind: AccountKind }
    /** The repository that it is a fork of. */
    parent?: { repoId: number; owner: AccountRef; name: string }
    ownerVisibility: Visibility
    settings: RepositorySettings
    template?: boolean
    /** A user who becomes a collaborator with admin permission. */
    creator?: AccountRef | undefined
    topics?: readonly string[]
    protections?: readonly BranchProtection[]
  },
): Decision<RepositoryEvent> {
  if (state.status !== 'none') return refuse.conflict('the repository exists already')
  const {
    settings,
    ownerVisibility,
    template = false,
    creator,
    topics = [],
    protections = [],
    ...identity
  } = created
  const data = { ...identity, ...settings }
  const isShown = ownerVisibility === 'public'
  const made: RepositoryEvent = {
    type: 'RepositoryCreated',
    data: isShown ? data : { ...data, ownerVisibility },
  }
  const { repoId } = created
  const events: RepositoryEvent[] = [made]
  if (creator !== undefined) {
    events.push({ type: 'CollaboratorSet', data: { repoId, user: creator, permission: 'admin' } })
  }
  if (template) events.push({ type: 'TemplateChanged', data: { repoId, template } })
  const plain = { id: repoId, ownerVisibility, settings, topics: [] }
  events.push(...topicsSeen(plain, { ...plain, topics }))
  for (const protection of protections) {
    events.push({ type: 'BranchProtectionSet', data: { repoId, protection } })
  }
  return events
}

/** An edit; absent fields do not change. */
export interface RepositoryEdit extends Partial<RepositorySettings & Omit<MergeSettings, 'mergeStyles'>> {
  /** Merge styles to allow or forbid. */
  allow?: Partial<Record<MergeStyle, boolean>>
  archived?: boolean
  template?: boolean
}

/**
 * Records only changed settings. When the default merge style is forbidden, the first allowed one replaces it.
 * `mayPublish`: whether the fork may become public, as far as its ancestors are concerned.
 */
export function decideEdit(
  state: RepositoryState,
  edit: RepositoryEdit,
  mayPublish: boolean,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  if (edit.private === false && state.settings.private && state.parentId !== null && !mayPublish) {
    return refuse.forbidden('private: only an admin of the parent repository may make the fork public')
  }
  const { allow = {}, archived, template, ...settings } = edit
  const mergeStyles = MERGE_STYLES.filter(
    (style) => allow[style] ?? state.settings.mergeStyles.includes(style),
  )
  const badWebsite = settings.website === undefined ? undefined : websiteProblem(settings.website)
  if (badWebsite !== undefined)
    return refuse.unprocessable(`website: ${badWebsite}`, [`website: ${badWebsite}`])
  const { defaultMergeStyle: named } = settings
  if (named !== undefined && !mergeStyles.includes(named)) {
    const problem = `default_merge_style: "${named}" is not one of the allowed merge styles`
    return refuse.unprocessable(problem, [problem])
  }
  const before = named ?? state.settings.defaultMergeStyle
  const defaultMergeStyle = mergeStyles.includes(before) ? before : (mergeStyles[0] ?? before)
  const changes = changedFields(state.settings, { ...settings, mergeStyles, defaultMergeStyle })
  const { id: repoId, owner } = state
  const after = { ...state, settings: { ...state.settings, ...changes } }
  const events: RepositoryEvent[] = topicsSeen(state, after)
  if (Object.keys(changes).length > 0) events.unshift({ type: 'RepositoryEdited', data: { repoId, changes } })
  if (changes.name !== undefined) {
    const { id, login } = owner
    const moved = { repoId, owner: { id, login }, from: state.settings.name, name: changes.name }
    events.push({ type: 'RepositoryRenamed', data: moved })
  }
  if (template !== undefined && template !== state.template) {
    events.push({ type: 'TemplateChanged', data: { repoId, template } })
  }
  if (archived !== undefined && archived !== state.archived) {
    events.push({ type: 'ArchivedChanged', data: { repoId, archived } })
  }
  return events
}

/** Records the visibility of the owner. */
export function decideOwnerVisibility(
  state: RepositoryState,
  visibility: Visibility,
): Decision<RepositoryEvent> {
  if (state.status !== 'active' || state.ownerVisibility === visibility) return []
  const shown: RepositoryEvent = {
    type: 'OwnerVisibilityChanged',
    data: { repoId: state.id, visibility },
  }
  return [shown, ...topicsSeen(state, { ...state, ownerVisibility: visibility })]
}

export function decideDelete(state: RepositoryState): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const { id, owner, parentId, settings } = state
  const data = { repoId: id, owner: { id: owner.id, login: owner.login }, name: settings.name }
  return [
    ...topicsSeen(state, { ...state, topics: [] }),
    { type: 'RepositoryDeleted', data: parentId === null ? data : { ...data, parentId } },
  ]
}

/** Sets the permission of a collaborator. The owner cannot be one. */
export function decideSetCollaborator(
  state: RepositoryState,
  user: AccountRef,
  permission: Permission,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  if (user.id === state.owner.id) return refuse.unprocessable('the owner cannot be a collaborator')
  const before = state.collaborators[`${user.id}`]
  if (before === permission) return []
  if (before === undefined && Object.keys(state.collaborators).length >= MAX_COLLABORATORS) {
    return refuse.unprocessable(
      `a repository has at most ${MAX_COLLABORATORS} collaborators; use teams for more people`,
    )
  }
  return [{ type: 'CollaboratorSet', data: { repoId: state.id, user, permission } }]
}

/** Removes a collaborator; no event for another user, as in Gitea. */
export function decideRemoveCollaborator(
  state: RepositoryState,
  user: AccountRef,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  if (state.collaborators[`${user.id}`] === undefined) return []
  return [{ type: 'CollaboratorRemoved', data: { repoId: state.id, user } }]
}
