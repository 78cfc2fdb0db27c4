/** Adds labels to an issue or pull request and removes them: `/repos/{owner}/{repo}/issues/{index}/labels`. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { IssueParams, issueFor, labelsOfIssue } from '../../api/issues/issues.ts'
import { LabelWire, labelIdsNamed, labelsByIds } from '../../api/labels/labels.ts'
import { Nullable } from '../../api/nullable.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { LabelRef } from '../../events/catalog/labels.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type { Discussion } from '../../projections/models/issues/discussion.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../../services/services.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { changeDiscussion } from './change-discussion.ts'
import { decideEditDiscussion } from './discussion.decider.ts'
import { labelRefs } from './fields.ts'

/** Ids or names. Unknown labels are ignored. */
const IssueLabelsOption = Type.Object(
  {
    labels: Nullable(Type.Array(Type.Union([Type.Integer(), Type.String()]), { maxItems: 1000 })),
  },
  { title: 'IssueLabelsOption' },
)

const IssueLabelParams = Type.Object({ ...IssueParams.properties, id: Type.String() })

/** Returns the ids in the request, then those of the named labels. */
async function idsOf(
  services: Services,
  repository: RepositoryDocument,
  { labels }: Static<typeof IssueLabelsOption>,
): Promise<number[]> {
  const given = labels ?? []
  const names = given.filter((label) => typeof label === 'string')
  const ids = given.filter((label) => typeof label === 'number')
  return [...ids, ...(await labelIdsNamed(services, repository, names))]
}

export const issueLabelRoutes: Routes = (services) => {
  /** `relabeling` resolves to the labels after the change. */
  async function relabel(
    request: FastifyRequest,
    reply: FastifyReply,
    repository: RepositoryDocument,
    index: string,
    relabeling: (discussion: Discussion) => readonly LabelRef[] | Promise<readonly LabelRef[]>,
  ): Promise<void> {
    const issue = await issueFor(services, repository.id, index)
    const context = commandContext(request)
    await changeDiscussion(services, context, issue, 'labels', {
      issue: async (discussion) => decideEditDiscussion(discussion, { labels: await relabeling(discussion) }),
    })
    await settled(services, context, reply)
  }

  return async (app) => {
    for (const method of ['POST', 'PUT'] as const) {
      app.route({
        method,
        url: '/repos/:owner/:repo/issues/:index/labels',
        ...route('issue', {
          params: IssueParams,
          body: IssueLabelsOption,
          response: { 200: Type.Array(LabelWire) },
        }),
        handler: async (request, reply) => {
          const { repository } = await onRepository(services, request, 'write')
          const given = await idsOf(services, repository, request.body)
          await relabel(request, reply, repository, request.params.index, ({ labels }) => {
            // The new labels come last: of exclusive labels the last one wins.
            const had = method === 'PUT' ? [] : labels.map(({ id }) => id)
            return labelRefs(services, repository, [...had.filter((id) => !given.includes(id)), ...given])
          })
          return labelsOfIssue(services, repository, request.params.index)
        },
      })
    }

    app.delete(
      '/repos/:owner/:repo/issues/:index/labels',
      route('issue', { params: IssueParams, response: NO_CONTENT }),
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'write')
        await relabel(request, reply, repository, request.params.index, () => [])
        return reply.code(204).send(null)
      },
    )

    app.delete(
      '/repos/:owner/:repo/issues/:index/labels/:id',
      route('issue', { params: IssueLabelParams, response: NO_CONTENT }),
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'write')
        const { index, id: idOrName } = request.params
        await issueFor(services, repository.id, index)
        const id = pathNumber(idOrName)
        const ids = id === undefined ? await labelIdsNamed(services, repository, [idOrName]) : [id]
        if ((await labelsByIds(services, repository, ids)).length === 0) {
          throw new Refused(refuse.unprocessable(`label: ${idOrName} does not exist`))
        }
        await relabel(request, reply, repository, index, ({ labels }) =>
          labels.filter((had) => !ids.includes(had.id)),
        )
        return reply.code(204).send(null)
      },
    )
  }
}
