/** Repositories on the wire, with their owners and the repositories that they were forked from. */
import { type Static, Type } from 'typebox'
import { type Access, accessTo, atLeast } from '../../access/access.ts'
import { wholeSeconds, ZERO_TIME } from '../../domain/times.ts'
import type { DiskUsageDocument } from '../../projections/installation/disk-usage.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { Nullable } from '../nullable.ts'
import { UserWire, userWire } from '../users/users.ts'
import { RepoTransferWire, transfersOf } from './repository-transfers.ts'

export const RepositoryParams = Type.Object({ owner: Type.String(), repo: Type.String() })

const fields = {
  id: Type.Integer(),
  owner: UserWire,
  name: Type.String(),
  full_name: Type.String(),
  description: Type.String(),
  empty: Type.Boolean(),
  private: Type.Boolean(),
  fork: Type.Boolean(),
  template: Type.Boolean(),
  mirror: Type.Boolean(),
  archived: Type.Boolean(),
  archived_at: Type.String(),
  topics: Type.Array(Type.String()),
  internal: Type.Boolean(),
  website: Type.String(),
  html_url: Type.String(),
  url: Type.String(),
  clone_url: Type.String(),
  ssh_url: Type.String({ description: 'Always empty: this server has no SSH' }),
  link: Type.String(),
  original_url: Type.String(),
  avatar_url: Type.String(),
  repo_transfer: Type.Optional(RepoTransferWire),
  size: Type.Integer({ description: 'Size of the git data on disk, in KiB; 0 until measured' }),
  language: Type.String({ description: 'Language with the most bytes; empty until counted' }),
  languages_url: Type.String(),
  default_branch: Type.String(),
  created_at: Type.String(),
  updated_at: Type.String(),
  permissions: Type.Object({ admin: Type.Boolean(), push: Type.Boolean(), pull: Type.Boolean() }),
  has_issues: Type.Boolean(),
  has_pull_requests: Type.Boolean(),
  has_wiki: Type.Boolean(),
  has_projects: Type.Boolean(),
  has_releases: Type.Boolean(),
  has_packages: Type.Boolean(),
  has_actions: Type.Boolean(),
  stars_count: Type.Integer(),
  watchers_count: Type.Integer(),
  forks_count: Type.Integer(),
  open_issues_count: Type.Integer(),
  open_pr_counter: Type.Integer(),
  release_counter: Type.Integer(),
  ignore_whitespace_conflicts: Type.Boolean(),
  allow_merge_commits: Type.Boolean(),
  allow_rebase: Type.Boolean(),
  allow_rebase_explicit: Type.Boolean(),
  allow_squash_merge: Type.Boolean(),
  allow_fast_forward_only_merge: Type.Boolean(),
  allow_manual_merge: Type.Boolean(),
  autodetect_manual_merge: Type.Boolean(),
  allow_rebase_update: Type.Boolean(),
  default_delete_branch_after_merge: Type.Boolean(),
  default_merge_style: Type.String(),
  default_allow_maintainer_edit: Type.Boolean(),
  object_format_name: Type.String(),
}

/** A repository inside another answer, and the parent of a fork: without its own parent. */
export const PlainRepositoryWire = Type.Object(
  { ...fields, parent: Type.Null() },
  { title: 'PlainRepository' },
)

export const RepositoryWire = Type.Object(
  {
    ...fields,
    parent: Nullable(PlainRepositoryWire),
  },
  { title: 'Repository' },
)

/** Size and main language of a repository. They are measured shortly after each change. */
export type Measured = Pick<Static<typeof PlainRepositoryWire>, 'size' | 'language'>

/** `usage`: undefined until it is measured. */
export function measuredOf(usage: DiskUsageDocument | undefined): Measured {
  if (usage === undefined) return { size: 0, language: '' }
  const [language = ''] = Object.keys(usage.languages?.bytes ?? {})
  return { size: Math.ceil(usage.gitBytes / 1024), language }
}

/** Returns a repository as Gitea's `Repository`, with the requester's access in `permissions`. */
export function repositoryWire(
  repository: RepositoryDocument,
  owner: AccountDocument,
  access: Access,
  publicUrl: string,
  { size, language }: Measured = measuredOf(undefined),
): Static<typeof PlainRepositoryWire> {
  const { mergeStyles } = repository
  const fullName = `${repository.ownerLogin}/${repository.name}`
  const url = `${publicUrl}/api/v1/repos/${fullName}`
  return {
    id: repository.id,
    owner: userWire(owner, publicUrl),
    name: repository.name,
    full_name: fullName,
    description: repository.description,
    empty: repository.empty,
    private: repository.private,
    fork: repository.parentId !== null,
    template: repository.template,
    mirror: false,
    archived: repository.archived,
    archived_at: repository.archivedAt === null ? ZERO_TIME : wholeSeconds(repository.archivedAt),
    topics: repository.topics,
    internal: !repository.private && repository.ownerVisibility === 'private',
    website: repository.website,
    html_url: `${publicUrl}/${fullName}`,
    url,
    clone_url: `${publicUrl}/${fullName}.git`,
    ssh_url: '',
    link: '',
    original_url: '',
    avatar_url: '',
    size,
    language,
    languages_url: `${url}/languages`,
    default_branch: repository.defaultBranch,
    created_at: wholeSeconds(repository.createdAt),
    updated_at: wholeSeconds(repository.updatedAt),
    permissions: {
      admin: atLeast(access, 'admin'),
      push: atLeast(access, 'write'),
      pull: atLeast(access, 'read'),
    },
    has_issues: true,
    has_pull_requests: true,
    has_wiki: false,
    has_projects: false,
    has_releases: true,
    has_packages: false,
    has_actions: false,
    stars_count: repository.stars,
    watchers_count: repository.watchers,
    forks_count: repository.forks,
    open_issues_count: repository.openIssues,
    open_pr_counter: repository.openPulls,
    release_counter: repository.releases ?? 0,
    ignore_whitespace_conflicts: false,
    allow_merge_commits: mergeStyles.includes('merge'),
    allow_rebase: mergeStyles.includes('rebase'),
    allow_rebase_explicit: mergeStyles.includes('rebase-merge'),
    allow_squash_merge: mergeStyles.includes('squash'),
    allow_fast_forward_only_merge: mergeStyles.includes('fast-forward-only'),
    allow_manual_merge: mergeStyles.includes('manually-merged'),
    autodetect_manual_merge: false,
    allow_rebase_update: repository.allowRebaseUpdate,
    default_delete_branch_after_merge: repository.deleteBranchAfterMerge,
    default_merge_style: repository.defaultMergeStyle,
    default_allow_maintainer_edit: repository.defaultMaintainerEdit ?? false,
    object_format_name: 'sha1',
    parent: null,
  }
}

/** Returns repositories by id, without parents and transfers. */
async function plainWires(
  services: Services,
  rows: readonly RepositoryRow[],
): Promise<Map<number, Static<typeof PlainRepositoryWire>>> {
  const [owners, usages] = await Promise.all([
    services.views.accounts.getMany([...new Set(rows.map(({ repository }) => `${repository.ownerId}`))]),
    services.diskUsage.getMany(rows.map(({ repository }) => repository.id)),
  ])
  const ownerById = new Map(owners.map((owner) => [owner.id, owner]))
  const publicUrl = services.publicUrl()
  return new Map(
    rows.flatMap(({ repository, access }) => {
      const owner = ownerById.get(repository.ownerId)
      if (owner === undefined) return []
      const measured = measuredOf(usages.get(repository.id))
      return [[repository.id, repositoryWire(repository, owner, access, publicUrl, measured)] as const]
    }),
  )
}

interface RepositoryRow {
  repository: RepositoryDocument
  access: Access
}

/** Returns repositories, and forks with their parents if the requester may read these, with a few look-ups. */
async function wiresOf(
  services: Services,
  rows: readonly RepositoryRow[],
  requester: AccountDocument | null,
): Promise<Static<typeof RepositoryWire>[]> {
  const repositories = rows.map(({ repository }) => repository)
  const parentIds = new Set(
    repositories.flatMap(({ parentId }) => (parentId === null ? [] : [`${parentId}`])),
  )
  const found = parentIds.size === 0 ? [] : await services.views.repositories.getMany([...parentIds])
  const parents = found
    .map((repository) => ({ repository, access: accessTo(repository, requester) }))
    .filter(({ access }) => atLeast(access, 'read'))
  const [plain, plainParents, transfers] = await Promise.all([
    plainWires(services, rows),
    plainWires(services, parents),
    transfersOf(services, repositories, requester),
  ])
  return repositories.flatMap(({ id, parentId }) => {
    const wire = plain.get(id)
    if (wire === undefined) return []
    const parent = (parentId === null ? undefined : plainParents.get(parentId)) ?? null
    return [{ ...wire, ...transfers.get(id), parent }]
  })
}

/** Returns repositories of any owners, in the given order. */
export function repositoryWires(
  services: Services,
  repositories: readonly RepositoryDocument[],
  requester: AccountDocument | null,
): Promise<Static<typeof RepositoryWire>[]> {
  const rows = repositories.map((repository) => ({ repository, access: accessTo(repository, requester) }))
  return wiresOf(services, rows, requester)
}

/** Returns one repository. `access`: the requester's access to it. */
export async function repositoryPage(
  services: Services,
  repository: RepositoryDocument,
  access: Access,
  requester: AccountDocument | null,
): Promise<Static<typeof RepositoryWire>> {
  const [wire] = await wiresOf(services, [{ repository, access }], requester)
  if (wire === undefined) throw new Error(`repository ${repository.id} has no owner ${repository.ownerId}`)
  return wire
}

/** Returns the owner's document, which exists as long as the repository. */
export async function ownerOf(services: Services, repository: RepositoryDocument): Promise<AccountDocument> {
  const owner = await services.views.accounts.get(`${repository.ownerId}`)
  if (owner === undefined) throw new Error(`repository ${repository.id} has no owner ${repository.ownerId}`)
  return owner
}

/** Returns the owner's fork of a repository, of which there is at most one. A fork of a fork does not count. */
export async function forkOf(
  services: Services,
  baseRepoId: number,
  ownerId: number,
): Promise<RepositoryDocument | undefined> {
  return services.views.repositories.findOne({ parentId: baseRepoId, ownerId })
}
