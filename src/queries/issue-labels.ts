/** The labels of one issue or pull request: `GET /repos/{owner}/{repo}/issues/{index}/labels`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { repositoryFor } from '../http/requests.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import type { Services } from '../services.ts'
import { IssueParams, issueFor } from './issues.ts'
import { LabelWire, labelWire } from './labels.ts'

/** The labels that the issue in the path has, without those that were deleted since. 404 when there is no issue. */
export async function labelsOfIssue(
  services: Services,
  repository: RepositoryDocument,
  index: string,
): Promise<Static<typeof LabelWire>[]> {
  const { labelIds } = await issueFor(services, repository.id, index)
  const labels = await services.views.labels.getMany(labelIds.map(String))
  return labels.map((label) => labelWire(label, repository, services.publicUrl()))
}

export function issueLabelQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/issues/:index/labels',
      {
        config: { scope: 'issue' },
        schema: { tags: ['issue'], params: IssueParams, response: { 200: Type.Array(LabelWire) } },
      },
      async (request) => {
        const { repository } = await repositoryFor(services, request, request.params, 'read')
        return labelsOfIssue(services, repository, request.params.index)
      },
    )
  }
}
