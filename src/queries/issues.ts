/** Issues on the wire: one, and the list of a repository. Pull requests are among them, as in Gitea. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { PageQuery, pageOf, sendPaging } from '../http/paging.ts'
import { pathNumber } from '../http/path-number.ts'
import { repositoryFor } from '../http/requests.ts'
import { TimeRangeQuery } from '../http/time-range.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import { type IssueSelection, issueId } from '../projections/issue-selection.ts'
import type { IssueDocument } from '../projections/issues.ts'
import { type LabelDocument, scopeKey } from '../projections/labels.ts'
import type { Filter } from '../projections/read-store.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import { atLeast } from '../rights/access.ts'
import type { AnswerServices, Services } from '../services.ts'
import {
  type IssueQuery,
  issuePage,
  kindOf,
  namesIn,
  stateOf,
  updatedWithin,
  wordsAsked,
} from './issue-pages.ts'
import { IssueWire, issueWire, namedNow, present } from './issue-wire.ts'
import { givenIn, labelIdsNamed, labelWire } from './labels.ts'
import { milestoneWire } from './milestones.ts'
import { RepositoryParams, repositoryWire } from './repositories.ts'
import { userWire } from './users.ts'

export const IssueParams = Type.Object({ owner: Type.String(), repo: Type.String(), index: Type.String() })

/** The issue or pull request with that number, or 404. */
export async function issueFor(
  services: AnswerServices,
  repoId: number,
  index: string,
): Promise<IssueDocument> {
  const number = pathNumber(index)
  const issue = number === undefined ? undefined : await services.views.issues.get(issueId(repoId, number))
  if (issue === undefined) throw new Refused(refuse.notFound('issue not found'))
  return issue
}

/**
 * Issues of any repositories, in their order, with all that they name read at once. Those of repositories
 * that the requester may not read are left out. `named`: by default of now.
 */
export async function issueWires(
  services: AnswerServices,
  issues: readonly IssueDocument[],
  requester: AccountDocument | null,
  named = namedNow(services),
): Promise<Static<typeof IssueWire>[]> {
  const publicUrl = services.publicUrl()
  const idsOf = (naming: (issue: IssueDocument) => readonly number[]) => [
    ...new Set(issues.flatMap((issue) => naming(issue).map(String))),
  ]
  const repositories = (await named.repositories.getMany(idsOf(({ repoId }) => [repoId]))).filter(
    (repository) => atLeast(named.access(repository, requester), 'read'),
  )
  const peopleIds = new Set([
    ...idsOf(({ posterId, assigneeIds }) => [posterId, ...assigneeIds]),
    ...repositories.map(({ ownerId }) => `${ownerId}`),
  ])
  const [accounts, labels, milestones] = await Promise.all([
    named.accounts.getMany([...peopleIds]),
    named.labels.getMany(idsOf(({ labelIds }) => labelIds)),
    named.milestones.getMany(idsOf(({ milestoneId }) => (milestoneId === null ? [] : [milestoneId]))),
  ])
  const accountsById = new Map(accounts.map((account) => [account.id, account]))
  const people = new Map(accounts.map((account) => [account.id, userWire(account, publicUrl)]))
  const milestoneWires = new Map(milestones.map((milestone) => [milestone.id, milestoneWire(milestone)]))
  const labelsOf = new Map<string, LabelDocument[]>()
  for (const label of labels) {
    const others = labelsOf.get(label.scopeKey) ?? []
    others.push(label)
    labelsOf.set(label.scopeKey, others)
  }
  const around = new Map(
    repositories.flatMap((repository) => {
      const owner = accountsById.get(repository.ownerId)
      if (owner === undefined) return []
      const wire = repositoryWire(repository, owner, named.access(repository, requester), publicUrl)
      const given = givenIn(repository).flatMap((scope) => labelsOf.get(scopeKey(scope)) ?? [])
      const own = given.map((label) => [label.id, labelWire(label, repository, publicUrl)] as const)
      const names = { people, labels: new Map(own), milestones: milestoneWires, publicUrl }
      return [[repository.id, { repository: wire, ...names }] as const]
    }),
  )
  return present(
    issues.map((issue) => {
      const surroundings = around.get(issue.repoId)
      return surroundings && issueWire(issue, surroundings)
    }),
  )
}

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
        const { repository } = await repositoryFor(services, request, request.params, 'read')
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
        const { repository } = await repositoryFor(services, request, request.params, 'read')
        const issue = await issueFor(services, repository.id, request.params.index)
        const [wire] = await issueWires(services, [issue], request.requester)
        if (wire === undefined) throw new Refused(refuse.notFound('issue not found'))
        return wire
      },
    )
  }
}
