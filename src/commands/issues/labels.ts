/** Adds labels to an issue or pull request and removes them: `/repos/{owner}/{repo}/issues/{index}/labels`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { LabelRef } from '../../events/domain-events.ts'
import { pathNumber } from '../../http/path-number.ts'
import type { Discussion } from '../../projections/discussion.ts'
import type { RepositoryDocument } from '../../projections/repositories.ts'
import { Refused, refuse } from '../../refusal.ts'
import { onRepository } from '../../rights/repository-access.ts'
import type { Services } from '../../services.ts'
import { IssueParams, issueFor, labelsOfIssue } from '../../wire/issues.ts'
import { LabelWire, labelIdsNamed, labelsByIds } from '../../wire/labels.ts'
import { Nullable } from '../../wire/nullable.ts'
import { commandContext, settled } from '../request-context.ts'
import { changeDiscussion } from './change-discussion.ts'
import { decideEditDiscussion } from './discussion.ts'
import { labelRefs } from './fields.ts'

/** Ids or names. Labels that neither the repository nor its organization has are ignored. */
const IssueLabelsOption = Type.Object({
  labels: Nullable(Type.Array(Type.Union([Type.Integer(), Type.String()]), { maxItems: 1000 })),
})

const IssueLabelParams = Type.Object({ ...IssueParams.properties, id: Type.String() })

/** The labels that an issue has after the change. */
type Relabeling = (discussion: Discussion) => readonly LabelRef[] | Promise<readonly LabelRef[]>

export function issueLabelRoutes(services: Services): FastifyPluginAsyncTypebox {
  async function relabel(
    request: FastifyRequest,
    reply: FastifyReply,
    repository: RepositoryDocument,
    index: string,
    relabeling: Relabeling,
  ): Promise<void> {
    const issue = await issueFor(services, repository.id, index)
    const context = commandContext(request)
    await changeDiscussion(services, context, issue, 'labels', {
      issue: async (discussion) => decideEditDiscussion(discussion, { labels: await relabeling(discussion) }),
    })
    await settled(services, context, reply)
  }

  /** The given ids, then the ids of the given names. */
  async function idsOf(
    repository: RepositoryDocument,
    { labels }: Static<typeof IssueLabelsOption>,
  ): Promise<number[]> {
    const given = labels ?? []
    const names = given.filter((label) => typeof label === 'string')
    return [
      ...given.filter((label) => typeof label === 'number'),
      ...(await labelIdsNamed(services, repository, names)),
    ]
  }

  return async (app) => {
    const config = { scope: 'issue' } as const
    const tags = ['issue']
    const naming = {
      tags,
      params: IssueParams,
      body: IssueLabelsOption,
      response: { 200: Type.Array(LabelWire) },
    }

    app.post(
      '/repos/:owner/:repo/issues/:index/labels',
      { config, schema: naming },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'write')
        const given = await idsOf(repository, request.body)
        await relabel(request, reply, repository, request.params.index, ({ labels }) => {
          // The new labels come last: the last one of several exclusive labels counts.
          const kept = labels.map(({ id }) => id).filter((id) => !given.includes(id))
          return labelRefs(services, repository, [...kept, ...given])
        })
        return labelsOfIssue(services, repository, request.params.index)
      },
    )

    app.put(
      '/repos/:owner/:repo/issues/:index/labels',
      { config, schema: naming },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'write')
        const given = await idsOf(repository, request.body)
        await relabel(request, reply, repository, request.params.index, () =>
          labelRefs(services, repository, given),
        )
        return labelsOfIssue(services, repository, request.params.index)
      },
    )

    app.delete(
      '/repos/:owner/:repo/issues/:index/labels',
      { config, schema: { tags, params: IssueParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'write')
        await relabel(request, reply, repository, request.params.index, () => [])
        return reply.code(204).send(null)
      },
    )

    app.delete(
      '/repos/:owner/:repo/issues/:index/labels/:id',
      { config, schema: { tags, params: IssueLabelParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'write')
        const id = pathNumber(request.params.id)
        if (id === undefined) throw new Refused(refuse.notFound('label not found'))
        await issueFor(services, repository.id, request.params.index)
        const [label] = await labelsByIds(services, repository, [id])
        if (label === undefined) throw new Refused(refuse.unprocessable(`label: ${id} does not exist`))
        await relabel(request, reply, repository, request.params.index, ({ labels }) =>
          labels.filter((had) => had.id !== id),
        )
        return reply.code(204).send(null)
      },
    )
  }
}
