/** Repositories with what their page and every permission check need: settings, collaborators, counters. */
import type {
  AccountKind,
  AccountRef,
  BranchProtection,
  MergeSettings,
  Permission,
} from '../events/domain-events.ts'
import type { RecordedOf } from '../events/handlers.ts'
import { DEFAULT_MERGE_SETTINGS, withProtection } from '../events/repository-settings.ts'
import { isPullStream } from '../events/streams.ts'
import { type Fold, foldOf, readModel } from './read-model.ts'
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

export const repositoryFold: Fold<RepositoryDocument> = foldOf({
  collection: repositories,
  version: 3,
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
    RepositoryEdited(repository, { data: { changes } }) {
      const { name, ownerLogin } = { ...repository, ...changes }
      const readers = readersOf({ ...repository, ...changes })
      return { ...changes, readers, key: repositoryKey(ownerLogin, name) }
    },
    CollaboratorSet(repository, { data: { user, permission } }) {
      const { login } = user
      const collaborators = { ...repository.collaborators, [`${user.id}`]: { login, permission } }
      return { collaborators, readers: readersOf({ ...repository, collaborators }) }
    },
    CollaboratorRemoved(repository, { data }) {
      const { [`${data.user.id}`]: _removed, ...collaborators } = repository.collaborators
      return { collaborators, readers: readersOf({ ...repository, collaborators }) }
    },
    BranchProtectionSet: ({ protections }, { data }) => ({
      protections: withProtection(protections, data.protection),
    }),
    BranchProtectionRemoved: ({ protections }, { data }) => ({
      protections: protections.filter(({ rule }) => rule !== data.rule),
    }),
    RefsUpdated: ({ empty }, { data }) => ({
      empty: empty && !data.refs.some(({ ref, to }) => ref.startsWith('refs/heads/') && to !== null),
    }),
    IssueOpened: ({ openIssues }) => ({ openIssues: openIssues + 1 }),
    PullRequestOpened: ({ openPulls }) => ({ openPulls: openPulls + 1 }),
    StatusChanged(repository, { stream, data }) {
      const more = data.closed ? 1 : -1
      return isPullStream(stream) ? withClosedPulls(repository, more) : withClosedIssues(repository, more)
    },
    PullRequestMerged: (repository) => withClosedPulls(repository, 1),
  },
})

function created(data: RecordedOf<'RepositoryCreated'>['data'], at: string): RepositoryDocument {
  const { repoId, owner, name, description, website, private: isPrivate, defaultBranch } = data
  const { parent = null } = data
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

const withForks = (parent: RepositoryDocument | undefined, more: 1 | -1) =>
  parent && { ...parent, forks: parent.forks + more }

function readersOf({ private: isPrivate, ownerId, collaborators }: RepositoryDocument): number[] {
  const given = [ownerId, ...Object.keys(collaborators).map(Number)]
  return isPrivate ? given : [ANYONE, ...given]
}

/** One issue more is closed, and no longer open; or the other way round. */
const withClosedIssues = ({ openIssues, closedIssues }: RepositoryDocument, more: 1 | -1) => ({
  openIssues: openIssues - more,
  closedIssues: closedIssues + more,
})

const withClosedPulls = ({ openPulls, closedPulls }: RepositoryDocument, more: 1 | -1) => ({
  openPulls: openPulls - more,
  closedPulls: closedPulls + more,
})

export const repositoryModel = readModel(repositoryFold)
