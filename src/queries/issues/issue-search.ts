/** Searches issues in all readable repositories: `GET /repos/issues/search`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { readableBy } from '../../access/access.ts'
import { teamIdsOf } from '../../access/team-membership.ts'
import { IssueWire, issueWires } from '../../api/issues/issues.ts'
import { labelNameFilter } from '../../api/labels/labels.ts'
import { teamName, teamsOf } from '../../api/organizations/teams.ts'
import { signedIn } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { LabelScope } from '../../events/catalog/labels.ts'
import { flagOf, OptionalText } from '../../http/requests/optional-text.ts'
import { pageOf, sendPaging } from '../../http/requests/paging.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import { namesIn, RepeatedText } from '../../http/requests/repeated-text.ts'
import type { IssueSelection } from '../../projections/models/issues/issue-selection.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Filter } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { teamRepositories } from '../organizations/team-repositories.ts'
import { sendRows } from '../paged-list.ts'
import { IssueListQuery, issuePage, peopleFilter, searchedWords, sharedFilter } from './issue-pages.ts'

const SearchQuery = Type.Object({
  ...IssueListQuery.properties,
  milestones: RepeatedText('Titles, separated by commas; the issue has one of them'),
  created: OptionalText('true: only issues that the caller opened'),
  assigned: OptionalText('true: only issues assigned to the caller'),
  mentioned: OptionalText('true: only issues that mention the caller'),
  review_requested: OptionalText('true: only pull requests that wait for a review by the caller'),
  reviewed: OptionalText('true: only pull requests that the caller has reviewed'),
  owner: OptionalText('Login of the owner of the repositories'),
  team: OptionalText('Team of the owner, an organization: only issues of its repositories'),
  priority_repo_id: OptionalText('Id of the repository whose issues come first'),
})

/**
 * `search.3` for many repositories. A label of unreadable repositories counts as unknown: otherwise the answer would
 * reveal that it exists. See `search.4`, too.
 */
async function labelIdsIn({ views }: Services, requester: AccountDocument, names: readonly string[]) {
  if (names.length === 0) return []
  const labels = await views.labels.getMany(await views.labels.ids(labelNameFilter(names)))
  const readable = new Set(await views.repositories.ids(readableBy(requester)))
  const isVisible = async (scope: LabelScope) =>
    scope.kind === 'repository'
      ? readable.has(`${scope.repoId}`)
      : (await views.repositories.count({ ...readableBy(requester), ownerId: scope.organizationId })) > 0
  const visible: number[] = []
  for (const { id, scope } of labels) if (await isVisible(scope)) visible.push(id)
  return visible
}

async function filterOf(
  services: Services,
  requester: AccountDocument,
  repoIds: readonly number[],
  query: Static<typeof SearchQuery>,
): Promise<Filter<IssueSelection>> {
  const filter = { ...sharedFilter(query), ...(await peopleFilter(services, query)) }
  const labelIds = await labelIdsIn(services, requester, namesIn(query.labels))
  if (labelIds.length > 0) filter.labelIds = { $in: labelIds }
  const titles = namesIn(query.milestones)
  const milestoneIds =
    titles.length === 0
      ? []
      : await services.views.milestones.ids({ title: { $in: titles }, repoId: { $in: repoIds } })
  if (milestoneIds.length > 0) filter.milestoneId = { $in: milestoneIds.map(Number) }
  if (flagOf(query.created, false)) filter.posterId = requester.id
  if (flagOf(query.assigned, false)) filter.assigneeIds = requester.id
  if (flagOf(query.mentioned, false)) filter.mentionedIds = requester.id
  if (flagOf(query.review_requested, false))
    filter.requestedReviewerIds = { $in: [requester.id, ...teamIdsOf(requester)] }
  if (flagOf(query.reviewed, false)) filter.reviewerIds = requester.id
  return filter
}

/**
 * Returns ids of the repositories to search: the readable ones, of one owner, of a team of the owner, or all. An
 * unknown owner or team has none.
 * @throws Refused (unprocessable) for a team without an owner
 */
async function searchedRepositories(
  services: Services,
  requester: AccountDocument,
  { owner, team }: Static<typeof SearchQuery>,
): Promise<number[]> {
  const { views } = services
  const readable = readableBy(requester)
  if (!owner) {
    if (team)
      throw new Refused(refuse.unprocessable('team: requires owner, the organization that has the team'))
    return (await views.repositories.ids(readable)).map(Number)
  }
  const account = await views.accounts.findOne({ loginKey: owner.toLowerCase() })
  if (account === undefined) return []
  const ofOwner = { ...readable, ownerId: account.id }
  if (!team) return (await views.repositories.ids(ofOwner)).map(Number)
  const name = team.toLowerCase()
  const found = (await teamsOf(services, account)).find((one) => teamName(one).toLowerCase() === name)
  const has = found === undefined ? 'nothing' : teamRepositories(found, account, requester)
  return has === 'nothing' ? [] : (await views.repositories.ids({ ...ofOwner, ...has })).map(Number)
}

export function issueSearchRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/issues/search',
      {
        config: { scope: 'issue' },
        schema: { tags: ['issue'], querystring: SearchQuery, response: { 200: Type.Array(IssueWire) } },
      },
      async (request, reply) => {
        const requester = signedIn(request)
        const { query } = request
        const page = pageOf(query, services.config)
        const repoIds = await searchedRepositories(services, requester, query)
        const { rows, total } = await issuePage(
          services,
          repoIds,
          { filter: await filterOf(services, requester, repoIds, query), words: searchedWords(query.q) },
          page,
          pathNumber(query.priority_repo_id ?? ''),
        )
        sendPaging(request, reply, services.publicUrl(), page, total)
        return sendRows(reply, services.views.issues, rows, (found) => issueWires(services, found, requester))
      },
    )
  }
}
