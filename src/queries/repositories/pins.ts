/** Reading the pinned issues and pull requests of a repository. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { IssueWire, issueWires } from '../../api/issues/issues.ts'
import { PullRequestWire, pullWires } from '../../api/pull-requests/pulls.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { MAX_PINS, NO_PINS } from '../../events/pins.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import { pullId } from '../../projections/models/pull-requests/pulls.fold.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, rowsOrPage } from '../paged-list.ts'

const NewPinsWire = Type.Object({ issues: Type.Boolean(), pull_requests: Type.Boolean() })

export function pinQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { views } = services
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/issues/pinned',
      {
        config: { scope: 'issue' },
        schema: { tags: ['issue'], params: RepositoryParams, ...listSchema(IssueWire) },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const { issues } = repository.pins ?? NO_PINS
        const shown = rowsOrPage(services, request, reply, issues)
        const found = await views.issues.getMany(shown.map((index) => issueId(repository.id, index)))
        return issueWires(services, found, request.requester)
      },
    )

    app.get(
      '/repos/:owner/:repo/pulls/pinned',
      { schema: { tags: ['repository'], params: RepositoryParams, ...listSchema(PullRequestWire) } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const { pulls } = repository.pins ?? NO_PINS
        const shown = rowsOrPage(services, request, reply, pulls)
        const found = await views.pulls.getMany(shown.map((index) => pullId(repository.id, index)))
        return pullWires(services, repository, found, request.requester)
      },
    )

    app.get(
      '/repos/:owner/:repo/new_pin_allowed',
      { schema: { tags: ['repository'], params: RepositoryParams, response: { 200: NewPinsWire } } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'read')
        const { issues, pulls } = repository.pins ?? NO_PINS
        return { issues: issues.length < MAX_PINS, pull_requests: pulls.length < MAX_PINS }
      },
    )
  }
}
