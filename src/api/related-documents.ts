/** Related documents: those that issues and pull requests name by id. They are read once for all rows of an answer. */
import type { Static } from 'typebox'
import { type Access, accessTo, atLeast } from '../access/access.ts'
import { NO_PINS, type Pins } from '../events/pins.ts'
import type { DiskUsage } from '../projections/installation/disk-usage.ts'
import type { Discussion } from '../projections/models/issues/discussion.ts'
import { type LabelDocument, scopeKey } from '../projections/models/labels/labels.fold.ts'
import type { MilestoneDocument } from '../projections/models/milestones/milestones.fold.ts'
import type { TeamDocument } from '../projections/models/organizations/teams.fold.ts'
import type { RepositoryDocument } from '../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../projections/models/users/accounts.fold.ts'
import type { View } from '../projections/views/view.ts'
import type { AnswerServices } from '../services/services.ts'
import { cachedWire } from './cached-wires.ts'
import { type LabelWire, labelScopesOf, labelWire } from './labels/labels.ts'
import { type MilestoneWire, milestoneWire } from './milestones/milestones.ts'
import { type PlainTeamWire, teamsById } from './organizations/teams.ts'
import { measuredOf, type PlainRepositoryWire, repositoryWire } from './repositories/repositories.ts'
import { type UserWire, userWire } from './users/users.ts'

type Lookup<D extends object> = Pick<View<D>, 'getMany'>

/** A source of related documents: the present ones, or past ones (`queries/history/replay/past-documents.ts`). */
export interface DocumentSource {
  repositories: Lookup<RepositoryDocument>
  accounts: Lookup<AccountDocument>
  labels: Lookup<LabelDocument>
  milestones: Lookup<MilestoneDocument>
  /** The present ones: they decide about permissions. */
  teams: Lookup<TeamDocument>
  /** Disk usage of repositories, as measured last. */
  usages: DiskUsage['getMany']
  /** The requester's present access, even for a past repository. */
  access(repository: RepositoryDocument, requester: AccountDocument | null): Access
}

export function currentDocuments({
  views,
  diskUsage,
}: Pick<AnswerServices, 'views' | 'diskUsage'>): DocumentSource {
  const { repositories, accounts, labels, milestones, teams } = views
  return { repositories, accounts, labels, milestones, teams, usages: diskUsage.getMany, access: accessTo }
}

/** Related documents, by id. */
interface ById<V> {
  get(id: number): V | undefined
}

/** Related documents by their ids, in wire form, without deleted ones. */
export interface RelatedDocuments {
  repositories: ById<Static<typeof PlainRepositoryWire>>
  /** As in paths, `owner/name`: for who shows no more of a repository, whose counters change often. */
  repositoryNames: ById<string>
  people: ById<Static<typeof UserWire>>
  labels: ById<Static<typeof LabelWire>>
  milestones: ById<Static<typeof MilestoneWire>>
  teams: ById<Static<typeof PlainTeamWire>>
  /** Pinned issues and pull requests, by repository. */
  pins: ById<Pins>
  publicUrl: string
}

const repositoryForm = cachedWire(
  (
    repository: RepositoryDocument,
    owner: AccountDocument,
    access: Access,
    publicUrl: string,
    size: number,
    language: string,
  ) => repositoryWire(repository, owner, access, publicUrl, { size, language }),
)
const userForm = cachedWire((account: AccountDocument, publicUrl: string) => userWire(account, publicUrl))
const labelForm = cachedWire(labelWire)
const milestoneForm = cachedWire(milestoneWire)

const keysOf = (ids: readonly number[]) => [...new Set(ids.map(String))]

/** Returns the repositories with these ids that the requester may read, each once. */
export async function readableRepositories(
  source: DocumentSource,
  ids: readonly number[],
  requester: AccountDocument | null,
): Promise<RepositoryDocument[]> {
  const found = await source.repositories.getMany(keysOf(ids))
  return found.filter((repository) => atLeast(source.access(repository, requester), 'read'))
}

/**
 * Reads the documents that issues or pull requests name, with one look-up for each kind. `repositories`: those of the
 * answer; labels that none of them can have are left out. `people`: ids of users besides posters and assignees.
 */
export async function relatedDocuments(
  source: DocumentSource,
  discussions: readonly Discussion[],
  answer: {
    repositories: readonly RepositoryDocument[]
    people?: readonly number[]
    teams?: readonly number[]
    requester: AccountDocument | null
    publicUrl: string
  },
): Promise<RelatedDocuments> {
  const { repositories, people = [], teams = [], requester, publicUrl } = answer
  const users = discussions.flatMap(({ poster, assignees }) => [poster.id, ...assignees.map(({ id }) => id)])
  const owners = repositories.map(({ ownerId }) => ownerId)
  const [accounts, labels, milestones, teamForms, usages] = await Promise.all([
    source.accounts.getMany(keysOf([...users, ...people, ...owners])),
    source.labels.getMany(keysOf(discussions.flatMap((discussion) => discussion.labels.map(({ id }) => id)))),
    source.milestones.getMany(keysOf(discussions.flatMap(({ milestone }) => milestone?.id ?? []))),
    teamsById(source.teams, teams, repositories),
    source.usages(repositories.map(({ id }) => id)),
  ])
  const accountById = new Map(accounts.map((account) => [account.id, account]))
  const repositoryByScope = new Map(
    repositories.flatMap((repository) =>
      labelScopesOf(repository).map((scope) => [scopeKey(scope), repository] as const),
    ),
  )
  const repositoryForms = new Map(
    repositories.flatMap((repository) => {
      const owner = accountById.get(repository.ownerId)
      if (owner === undefined) return []
      const access = source.access(repository, requester)
      const { size, language } = measuredOf(usages.get(repository.id))
      const form = repositoryForm(repository, owner, access, publicUrl, size, language)
      return [[repository.id, form] as const]
    }),
  )
  return {
    repositories: repositoryForms,
    repositoryNames: { get: (id) => repositoryForms.get(id)?.full_name },
    teams: teamForms,
    people: new Map(accounts.map((account) => [account.id, userForm(account, publicUrl)])),
    labels: new Map(
      labels.flatMap((label) => {
        const repository = repositoryByScope.get(label.scopeKey)
        return repository ? [[label.id, labelForm(label, repository, publicUrl)] as const] : []
      }),
    ),
    pins: new Map(repositories.map(({ id, pins = NO_PINS }) => [id, pins])),
    milestones: new Map(milestones.map((milestone) => [milestone.id, milestoneForm(milestone)])),
    publicUrl,
  }
}
