/** The issues that an issue depends on, and those that depend on it. They may be in other repositories. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import type { Static } from 'typebox'
import { accessTo, atLeast } from '../../access/access.ts'
import { IssueParams, IssueWire, issueWires, onIssue } from '../../api/issues/issues.ts'
import { pageOf, sendPaging } from '../../http/requests/paging.ts'
import { issueId, repoIdIn } from '../../projections/models/issues/issue-selection.ts'
import type { IssueDocument } from '../../projections/models/issues/issues.fold.ts'
import type { Row } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, type PageRequest, sendRows } from '../paged-list.ts'

/** Number of issues per read. */
const CHUNK = 50

/** Yields the dependencies of the issue, in the order of their addition. */
async function* dependenciesOf(_: Services, issue: IssueDocument): AsyncGenerator<Row<IssueDocument>> {
  for (const id of issue.dependencyKeys) yield { id }
}

/** Yields the issues that depend on this one, oldest first. */
async function* blockedBy({ views }: Services, issue: IssueDocument): AsyncGenerator<Row<IssueDocument>> {
  const filter = { dependencyKeys: issueId(issue.repoId, issue.index) }
  for (let skip = 0; ; skip += CHUNK) {
    const found = await views.issues.rows(filter, { sort: [['id', 1]], skip, limit: CHUNK })
    yield* found
    if (found.length < CHUNK) return
  }
}

/** Sends one page of the issues that the requester may read. Rows and total exclude the others. */
async function sendReadable(
  services: Services,
  request: PageRequest,
  reply: FastifyReply,
  issues: AsyncIterable<Row<IssueDocument>>,
): Promise<Static<typeof IssueWire>[] | FastifyReply> {
  const page = pageOf(request.query, services.config)
  const shown: Row<IssueDocument>[] = []
  let total = 0
  for await (const row of issues) {
    const repoId = 'body' in row ? row.body.repoId : repoIdIn(row.id)
    const repository = await services.views.repositories.get(`${repoId}`)
    if (repository === undefined || !atLeast(accessTo(repository, request.requester), 'read')) continue
    if (total >= page.skip && shown.length < page.limit) shown.push(row)
    total += 1
  }
  sendPaging(request, reply, services.publicUrl(), page, total)
  return sendRows(reply, services.views.issues, shown, (found) =>
    issueWires(services, found, request.requester),
  )
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
          return sendReadable(services, request, reply, list(services, issue))
        },
      )
    }
  }
}
