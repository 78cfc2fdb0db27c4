/** Repositories on the wire, and reading one. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { repositoryFor } from '../http/requests.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import type { Services } from '../services.ts'
import { type Access, atLeast } from './access.ts'
import { UserWire, userWire } from './users.ts'

export const RepositoryParams = Type.Object({ owner: Type.String(), repo: Type.String() })

export const PermissionsWire = Type.Object({
  admin: Type.Boolean(),
  push: Type.Boolean(),
  pull: Type.Boolean(),
})

export const RepositoryWire = Type.Object({
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
  internal: Type.Boolean(),
  website: Type.String(),
  html_url: Type.String(),
  url: Type.String(),
  clone_url: Type.String(),
  default_branch: Type.String(),
  created_at: Type.String(),
  updated_at: Type.String(),
  permissions: PermissionsWire,
  has_issues: Type.Boolean(),
  has_pull_requests: Type.Boolean(),
  open_issues_count: Type.Integer(),
  open_pr_counter: Type.Integer(),
  allow_merge_commits: Type.Boolean(),
  default_merge_style: Type.String(),
  object_format_name: Type.String(),
})

/** The document as Gitea's `Repository`, with the requester's access in `permissions`. */
export function repositoryWire(
  repository: RepositoryDocument,
  owner: AccountDocument,
  access: Access,
  publicUrl: string,
): Static<typeof RepositoryWire> {
  const fullName = `${repository.ownerLogin}/${repository.name}`
  return {
    id: repository.id,
    owner: userWire(owner, publicUrl),
    name: repository.name,
    full_name: fullName,
    description: repository.description,
    empty: repository.empty,
    private: repository.private,
    fork: false,
    template: false,
    mirror: false,
    archived: false,
    internal: false,
    website: repository.website,
    html_url: `${publicUrl}/${fullName}`,
    url: `${publicUrl}/api/v1/repos/${fullName}`,
    clone_url: `${publicUrl}/${fullName}.git`,
    default_branch: repository.defaultBranch,
    created_at: repository.createdAt,
    updated_at: repository.updatedAt,
    permissions: {
      admin: atLeast(access, 'admin'),
      push: atLeast(access, 'write'),
      pull: atLeast(access, 'read'),
    },
    has_issues: true,
    has_pull_requests: true,
    open_issues_count: 0,
    open_pr_counter: repository.openPulls,
    allow_merge_commits: true,
    default_merge_style: 'merge',
    object_format_name: 'sha1',
  }
}

/** The owner's document; it exists as long as the repository does. */
export async function ownerOf(services: Services, repository: RepositoryDocument): Promise<AccountDocument> {
  const owner = await services.views.accounts.get(`${repository.ownerId}`)
  if (owner === undefined) throw new Error(`repository ${repository.id} has no owner ${repository.ownerId}`)
  return owner
}

export function repositoryQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo',
      { schema: { tags: ['repository'], params: RepositoryParams, response: { 200: RepositoryWire } } },
      async (request) => {
        const { repository, access } = await repositoryFor(services, request, request.params, 'read')
        return repositoryWire(repository, await ownerOf(services, repository), access, services.publicUrl())
      },
    )
  }
}
