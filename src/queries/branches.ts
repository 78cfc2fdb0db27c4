/** Branches on the wire: listing and reading them asks git nothing. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import type { Signature } from '../events/domain-events.ts'
import { pagedList } from '../http/paged-list.ts'
import { PageQuery } from '../http/paging.ts'
import { repositoryFor } from '../http/requests.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import { type BranchDocument, branchId } from '../projections/branches.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import type { Access } from '../rights/access.ts'
import { mayMerge, mayPush, protectionOf } from '../rights/protection-rules.ts'
import type { Services } from '../services.ts'
import { RepositoryParams } from './repositories.ts'

/** Branch names have slashes, so the name is all that follows. */
export const BranchParams = Type.Object({ owner: Type.String(), repo: Type.String(), '*': Type.String() })

const PersonWire = Type.Object({ name: Type.String(), email: Type.String(), username: Type.String() })

export const BranchWire = Type.Object({
  name: Type.String(),
  commit: Type.Object({
    id: Type.String(),
    message: Type.String(),
    url: Type.String(),
    author: PersonWire,
    committer: PersonWire,
    timestamp: Type.String(),
  }),
  protected: Type.Boolean(),
  required_approvals: Type.Integer(),
  enable_status_check: Type.Boolean(),
  status_check_contexts: Type.Array(Type.String()),
  user_can_push: Type.Boolean(),
  user_can_merge: Type.Boolean(),
  effective_branch_protection_name: Type.String(),
})

function branchWire(
  branch: BranchDocument,
  repository: RepositoryDocument,
  { requester, access }: { requester: AccountDocument | null; access: Access },
  publicUrl: string,
): Static<typeof BranchWire> {
  const { sha, message, author, committer } = branch.commit
  const protection = protectionOf(repository.protections, branch.name)
  return {
    name: branch.name,
    commit: {
      id: sha,
      message,
      url: `${publicUrl}/${repository.ownerLogin}/${repository.name}/commit/${sha}`,
      author: personWire(author),
      committer: personWire(committer),
      timestamp: committer.date,
    },
    protected: protection !== undefined,
    required_approvals: 0,
    enable_status_check: protection?.statusCheck ?? false,
    status_check_contexts: protection?.contexts ?? [],
    user_can_push: requester !== null && mayPush(protection, requester, access),
    user_can_merge: requester !== null && mayMerge(protection, requester.id, access),
    effective_branch_protection_name: protection?.rule ?? '',
  }
}

function personWire({ name, email }: Signature): Static<typeof PersonWire> {
  return { name, email, username: '' }
}

export function branchQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/branches',
      {
        schema: {
          tags: ['repository'],
          params: RepositoryParams,
          querystring: Type.Object(PageQuery),
          response: { 200: Type.Array(BranchWire) },
        },
      },
      async (request, reply) => {
        const { repository, access } = await repositoryFor(services, request, request.params, 'read')
        const found = await pagedList(services, request, reply, {
          view: services.views.branches,
          filter: { repoId: repository.id },
          sort: [['name', 1]],
          query: request.query,
        })
        const publicUrl = services.publicUrl()
        const viewer = { requester: request.requester, access }
        return found.map((branch) => branchWire(branch, repository, viewer, publicUrl))
      },
    )

    app.get(
      '/repos/:owner/:repo/branches/*',
      { schema: { tags: ['repository'], params: BranchParams, response: { 200: BranchWire } } },
      async (request) => {
        const { repository, access } = await repositoryFor(services, request, request.params, 'read')
        const branch = await services.views.branches.get(branchId(repository.id, request.params['*']))
        if (branch === undefined) throw new Refused(refuse.notFound('branch not found'))
        return branchWire(branch, repository, { requester: request.requester, access }, services.publicUrl())
      },
    )
  }
}
