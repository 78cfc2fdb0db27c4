/** Reads one issue or its labels, and lists the issues of a repository, including pull requests, as in Gitea. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { IssueParams, IssueWire, issueWires, labelsOfIssue, onIssue } from '../../api/issues/issues.ts'
import { LabelWire, labelIdsNamed } from '../../api/labels/labels.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { pageOf, sendPaging } from '../../http/requests/paging.ts'
import { namesIn, RepeatedText } from '../../http/requests/repeated-text.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../../services/services.ts'
import { filteredListSchema, listSchema, rowsOrPage, sendRows } from '../paged-list.ts'
import {
  IssueListQuery,
  type IssueQuery,
  issuePage,
  peopleFilter,
  searchedWords,
  sharedFilter,
} from './issue-pages.ts'

const MILESTONES = RepeatedText('Ids or titles, separated by commas; the issue has one of them')

/** The query of a list of the issues of one repository. */
export const RepositoryIssuesQuery = Type.Object({ ...IssueListQuery.properties, milestones: MILESTONES })

const LIST_SCHEMA = filteredListSchema(IssueWire, RepositoryIssuesQuery.properties)

/**
 * Returns the ids of the milestones in a list. Each is named by its title or, if no title matches, by its id. Ignores
 * unknown ones.
 */
async function milestoneIdsNamed({ views }: Services, repoId: number, list: string | string[] | undefined) {
  const names = namesIn(list)
  if (names.length === 0) return []
  const byTitle = await views.milestones.find({ repoId, title: { $in: names } })
  const titles = new Set(byTitle.map(({ title }) => title))
  const byId = await views.milestones.getMany(names.filter((name) => !titles.has(name)))
  return [...byTitle, ...byId.filter((milestone) => milestone.repoId === repoId)].map(({ id }) => id)
}

/** Returns the filter of such a list. @throws Refused (unprocessable) */
export async function issueQueryOf(
  services: Services,
  repository: RepositoryDocument,
  query: Static<typeof RepositoryIssuesQuery>,
): Promise<IssueQuery> {
  const filter = { ...sharedFilter(query), ...(await peopleFilter(services, query)) }
  // `search.3`.
  const labelIds = await labelIdsNamed(services, repository, namesIn(query.labels))
  if (labelIds.length > 0) filter.labelIds = { $in: labelIds }
  const milestoneIds = await milestoneIdsNamed(services, repository.id, query.milestones)
  if (milestoneIds.length > 0) filter.milestoneId = { $in: milestoneIds }
  return { filter, words: searchedWords(query.q) }
}

export function issueQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const tags = ['issue']
    const config = { scope: 'issue' } as const

    app.get(
      '/repos/:owner/:repo/issues',
      { config, schema: { tags, params: RepositoryParams, ...LIST_SCHEMA } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const page = pageOf(request.query, services.config)
        const query = await issueQueryOf(services, repository, request.query)
        const { rows, total } = await issuePage(services, [repository.id], query, page)
        sendPaging(request, reply, services.publicUrl(), page, total)
        return sendRows(reply, services.views.issues, rows, (found) =>
          issueWires(services, found, request.requester),
        )
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/:index',
      { config, schema: { tags, params: IssueParams, response: { 200: IssueWire } } },
      async (request) => {
        const { issue } = await onIssue(services, request, 'read')
        const [wire] = await issueWires(services, [issue], request.requester)
        if (wire === undefined) throw new Refused(refuse.notFound('issue not found'))
        return wire
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/:index/labels',
      { config, schema: { tags, params: IssueParams, ...listSchema(LabelWire) } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const labels = await labelsOfIssue(services, repository, request.params.index)
        return [...rowsOrPage(services, request, reply, labels)]
      },
    )
  }
}
