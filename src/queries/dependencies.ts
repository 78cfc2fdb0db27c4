/** The issues that an issue depends on, and those that depend on it. They may be in other repositories. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import type { Static } from 'typebox'
import { pageOf, sendPaging } from '../http/paging.ts'
import { issueId } from '../projections/issue-selection.ts'
import type { IssueDocument } from '../projections/issues.ts'
import { accessTo, atLeast } from '../rights/access.ts'
import type { Services } from '../services.ts'
import { IssueParams, IssueWire, issueWires, onIssue } from '../wire/issues.ts'
import { listSchema, type PageRequest } from './paged-list.ts'

/** Issues that are read at one time. It is small because their texts may be long. */
const CHUNK = 50

/** The dependencies of the issue, in the order in which they were added. */
async function* dependenciesOf({ views }: Services, issue: IssueDocument): AsyncGenerator<IssueDocument> {
  const { dependencyKeys } = issue
  for (let i = 0; i < dependencyKeys.length; i += CHUNK) {
    yield* await views.issues.getMany(dependencyKeys.slice(i, i + CHUNK))
  }
}

/** The issues that depend on this one, oldest first. */
async function* blockedBy({ views }: Services, issue: IssueDocument): AsyncGenerator<IssueDocument> {
  const filter = { dependencyKeys: issueId(issue.repoId, issue.index) }
  for (let skip = 0; ; skip += CHUNK) {
    const found = await views.issues.find(filter, { sort: [['id', 1]], skip, limit: CHUNK })
    yield* found
    if (found.length < CHUNK) return
  }
}

/** One page of the issues that the requester may read. Neither the rows nor the total include the others. */
async function sendPage(
  services: Services,
  request: PageRequest,
  reply: FastifyReply,
  issues: AsyncIterable<IssueDocument>,
): Promise<Static<typeof IssueWire>[]> {
  const page = pageOf(request.query, services.config)
  const shown: IssueDocument[] = []
  let total = 0
  for await (const issue of issues) {
    const repository = await services.views.repositories.get(`${issue.repoId}`)
    if (repository === undefined || !atLeast(accessTo(repository, request.requester), 'read')) continue
    if (total >= page.skip && shown.length < page.limit) shown.push(issue)
    total += 1
  }
  sendPaging(request, reply, services.publicUrl(), page, total)
  return issueWires(services, shown, request.requester)
}

export function dependencyQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const lists = { dependencies: dependenciesOf, blocks: blockedBy }
    for (const [name, list] of Object.entries(lists)) {
      app.get(
        `/repos/:owner/:repo/issues/:index/${name}`,
        {
          schema: { tags: ['issue'], params: IssueParams, ...listSchema(IssueWire) },
          config: { scope: 'issue' },
        },
        async (request, reply) => {
          const { issue } = await onIssue(services, request, 'read')
          return sendPage(services, request, reply, list(services, issue))
        },
      )
    }
  }
}
