/** Issues on the wire: one, and the list of a repository. Pull requests are among them, as in Gitea. */

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { PageQuery, pageOf, sendPaging } from '../http/paging.ts'
import { TimeRangeQuery } from '../http/time-range.ts'
import type { IssueSelection } from '../projections/issue-selection.ts'
import type { Filter } from '../projections/read-store.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import { onRepository } from '../rights/repository-access.ts'
import type { Services } from '../services.ts'
import { IssueParams, IssueWire, issueWires, onIssue } from '../wire/issues.ts'
import { labelIdsNamed } from '../wire/labels.ts'
import { RepositoryParams } from '../wire/repositories.ts'
import {
  type IssueQuery,
  issuePage,
  kindOf,
  namesIn,
  stateOf,
  updatedWithin,
  wordsAsked,
} from './issue-pages.ts'

const ListQuery = Type.Object({
  state: Type.Optional(Type.String({ description: 'open (default), closed or all' })),
  labels: Type.Optional(Type.String({ description: 'comma separated names, any of which it must have' })),
  q: Type.Optional(Type.String({ description: 'words of the title, the body or the comments' })),
  type: Type.Optional(Type.String({ description: 'issues or pulls; both when left out' })),
  milestones: Type.Optional(Type.String({ description: 'comma separated ids or titles' })),
  created_by: Type.Optional(Type.String({ description: 'login' })),
  assigned_by: Type.Optional(Type.String({ description: 'login' })),
  ...TimeRangeQuery,
  ...PageQuery,
})

/** Ids of milestones that a list names by title or, when none has it, by id; unknown ones are discarded. */
async function milestoneIdsNamed(
  { views }: Services,
  repoId: number,
  list: string | undefined,
): Promise<number[]> {
  const names = namesIn(list)
  if (names.length === 0) return []
  const byTitle = await views.milestones.find({ repoId, title: { $in: names } })
  const titles = new Set(byTitle.map(({ title }) => title))
  const byId = await views.milestones.getMany(names.filter((name) => !titles.has(name)))
  return [...byTitle, ...byId.filter((milestone) => milestone.repoId === repoId)].map(({ id }) => id)
}

/** The id of an account that a query names; 0, which nobody has, for an unknown one. */
async function accountIdNamed({ views }: Services, login: string): Promise<number> {
  return (await views.accounts.findOne({ loginKey: login.toLowerCase() }))?.id ?? 0
}

async function queryOf(
  services: Services,
  repository: RepositoryDocument,
  query: Static<typeof ListQuery>,
): Promise<IssueQuery> {
  const filter: Filter<IssueSelection> = { ...stateOf(query.state), ...kindOf(query.type) }
  // Search rule 3.
  const labelIds = await labelIdsNamed(services, repository, namesIn(query.labels))
  if (labelIds.length > 0) filter.labelIds = { $in: labelIds }
  const milestoneIds = await milestoneIdsNamed(services, repository.id, query.milestones)
  if (milestoneIds.length > 0) filter.milestoneId = { $in: milestoneIds }
  if (query.created_by) filter.posterId = await accountIdNamed(services, query.created_by)
  if (query.assigned_by) filter.assigneeIds = await accountIdNamed(services, query.assigned_by)
  Object.assign(filter, updatedWithin(query))
  return { filter, words: wordsAsked(query.q) }
}

export function issueQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const tags = ['issue']
    const config = { scope: 'issue' } as const

    app.get(
      '/repos/:owner/:repo/issues',
      {
        config,
        schema: {
          tags,
          params: RepositoryParams,
          querystring: ListQuery,
          response: { 200: Type.Array(IssueWire) },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const page = pageOf(request.query, services.config)
        const query = await queryOf(services, repository, request.query)
        const { found, total } = await issuePage(services, [repository.id], query, page)
        sendPaging(request, reply, services.publicUrl(), page, total)
        return issueWires(services, found, request.requester)
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
  }
}
