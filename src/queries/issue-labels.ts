/** The labels of one issue or pull request: `GET /repos/{owner}/{repo}/issues/{index}/labels`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { onRepository } from '../rights/repository-access.ts'
import type { Services } from '../services.ts'
import { IssueParams, labelsOfIssue } from '../wire/issues.ts'
import { LabelWire } from '../wire/labels.ts'

export function issueLabelQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/issues/:index/labels',
      {
        config: { scope: 'issue' },
        schema: { tags: ['issue'], params: IssueParams, response: { 200: Type.Array(LabelWire) } },
      },
      async (request) => {
        const { repository } = await onRepository(services, request, 'read')
        return labelsOfIssue(services, repository, request.params.index)
      },
    )
  }
}
