/** Searching repositories: `GET /repos/search`; and topics: `/topics/search`, `/repos/{owner}/{repo}/topics`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { canSee } from '../../access/visibility.ts'
import type { Team } from '../../api/organizations/teams.ts'
import { RepositoryParams, RepositoryWire, repositoryWires } from '../../api/repositories/repositories.ts'
import { signedIn } from '../../auth/requester.ts'
import { wholeSeconds } from '../../domain/times.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import { PageQuery, pageOf, sendPaging } from '../../http/requests/paging.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import { repoIdIn } from '../../projections/models/issues/issue-selection.ts'
import { partNamed } from '../../projections/models/repositories/name-parts.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { teamRepositories } from '../organizations/team-repositories.ts'
import { pagedList, pagedRows } from '../paged-list.ts'
import {
  ownerIn,
  RepositorySearchQuery,
  repositorySelections,
  type SearchedAccounts,
} from './repository-selection.ts'

const TopicWire = Type.Object({
  id: Type.Integer(),
  topic_name: Type.String(),
  repo_count: Type.Integer(),
  created: Type.String(),
  updated: Type.String(),
})

const SearchQuery = Type.Object({ ...RepositorySearchQuery.properties, ...PageQuery })

/** Returns the function that finds the repositories that a requester may read. It may throw Refused (unprocessable). */
export function repositorySearch(services: Services) {
  const { accounts, follows, repositories, teams } = services.views

  /** Returns the ids that a user has starred; none for a hidden user. */
  async function starredBy(text: string | undefined, requester: AccountDocument | null) {
    const id = pathNumber(text ?? '') ?? 0
    if (id === 0) return {}
    const user = await accounts.get(`${id}`)
    if (user === undefined || !canSee(user, requester)) return { starred: [] }
    return { starred: (await follows.ids({ userId: id, starred: true })).map(repoIdIn) }
  }

  /** Returns the repositories of the team with that id. */
  async function teamIn(
    text: string | undefined,
    requester: AccountDocument | null,
  ): Promise<Pick<SearchedAccounts, 'ofTeam'>> {
    const id = pathNumber(text ?? '') ?? 0
    if (id === 0) return {}
    const team = await teams.get(`${id}`)
    // The Owners have the id of the organization.
    const organization = await accounts.get(`${team?.organizationId ?? id}`)
    const named: Team = team === undefined ? { kind: 'owners' } : { kind: 'made', team }
    return { ofTeam: teamRepositories(named, organization, requester) }
  }

  return async (query: Static<typeof SearchQuery>, requester: AccountDocument | null) => {
    const login = ownerIn(query)
    const [member, owner, starred, ofTeam] = await Promise.all([
      accounts.get(`${pathNumber(query.uid ?? '') ?? 0}`),
      login === undefined ? undefined : accounts.findOne({ loginKey: login.toLowerCase() }),
      starredBy(query.starredBy, requester),
      teamIn(query.team_id, requester),
    ])
    const known = {
      member,
      owner: owner && canSee(owner, requester) ? owner : undefined,
      ...starred,
      ...ofTeam,
    }
    const parts = await Promise.all(
      repositorySelections(query, known, requester).map(async (part) => {
        return { ...part, count: await repositories.count(part.filter) }
      }),
    )
    const page = pageOf(query, services.config)
    const total = parts.reduce((sum, { count }) => sum + count, 0)
    const found: RepositoryDocument[] = []
    let { skip } = page
    for (const { filter, sort, count } of parts) {
      const limit = page.limit - found.length
      if (skip < count && limit > 0) {
        found.push(...(await repositories.find(filter, { sort, skip, limit })))
      }
      skip = Math.max(0, skip - count)
    }
    return { found, page, total }
  }
}

export function repositorySearchRoutes(services: Services): FastifyPluginAsyncTypebox {
  const search = repositorySearch(services)
  const { topics } = services.views

  return async (app) => {
    const config = { scope: 'repository' } as const
    const tags = ['repository']

    app.get(
      '/repos/search',
      {
        config,
        schema: {
          tags,
          querystring: SearchQuery,
          response: { 200: Type.Object({ ok: Type.Boolean(), data: Type.Array(RepositoryWire) }) },
        },
      },
      async (request, reply) => {
        const { query, requester } = request
        const { found, page, total } = await search(query, requester)
        sendPaging(request, reply, services.publicUrl(), page, total)
        return { ok: true, data: await repositoryWires(services, found, requester) }
      },
    )

    app.get(
      '/repos/:owner/:repo/topics',
      {
        config,
        schema: {
          tags,
          params: RepositoryParams,
          querystring: Type.Object(PageQuery),
          response: { 200: Type.Object({ topics: Type.Array(Type.String()) }) },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        return { topics: pagedRows(services, request, reply, repository.topics) }
      },
    )

    app.get(
      '/topics/search',
      {
        config,
        schema: {
          tags,
          querystring: Type.Object({ q: OptionalText('Part of the topic'), ...PageQuery }),
          response: { 200: Type.Object({ topics: Type.Array(TopicWire) }) },
        },
      },
      async (request, reply) => {
        signedIn(request)
        const part = partNamed(request.query.q ?? '')
        const found = await pagedList(services, request, reply, {
          view: topics,
          filter: part === undefined ? {} : { parts: { $words: [part] } },
          sort: [
            ['repositories', -1],
            ['name', 1],
          ],
        })
        const wires = found.map(({ id, name, repositories: count, createdAt, updatedAt }) => ({
          id,
          topic_name: name,
          repo_count: count,
          created: wholeSeconds(createdAt),
          updated: wholeSeconds(updatedAt),
        }))
        return { topics: wires }
      },
    )
  }
}
