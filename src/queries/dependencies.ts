/** What an issue depends on, and what depends on it: lists that may cross repositories. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { Refused, refuse } from '../commands/refusal.ts'
import { PageQuery, pageOf, sendPaging } from '../http/paging.ts'
import { pathNumber } from '../http/path-number.ts'
import { repositoryFor } from '../http/requests.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import { type PullDocument, pullId } from '../projections/pulls.ts'
import type { Services } from '../services.ts'
import { accessTo, atLeast } from './access.ts'
import { IssueWire, issueWire, present } from './issue-wire.ts'
import { surroundings } from './pulls.ts'

export const IssueParams = Type.Object({ owner: Type.String(), repo: Type.String(), index: Type.String() })

/** The issue with that number, or 404. */
export async function issueFor(services: Services, repoId: number, index: string): Promise<PullDocument> {
  const number = pathNumber(index)
  const issue = number === undefined ? undefined : await services.views.pulls.get(pullId(repoId, number))
  if (issue === undefined) throw new Refused(refuse.notFound('issue not found'))
  return issue
}

/** Issues of any repositories, in their order, as the requester may see them: others are left out. */
export async function issueWires(
  services: Services,
  issues: readonly PullDocument[],
  requester: AccountDocument | null,
): Promise<Static<typeof IssueWire>[]> {
  const wires = new Map<number, Static<typeof IssueWire>>()
  for (const repoId of new Set(issues.map((issue) => issue.repoId))) {
    const repository = await services.views.repositories.get(`${repoId}`)
    const access = repository === undefined ? 'none' : accessTo(repository, requester)
    if (repository === undefined || !atLeast(access, 'read')) continue
    const own = issues.filter((issue) => issue.repoId === repoId)
    const around = await surroundings(services, repository, access, own, requester)
    for (const issue of own) wires.set(issue.id, issueWire(issue, around))
  }
  return present(issues.map(({ id }) => wires.get(id)))
}

/** So many are read at a time: their texts may be long. */
const CHUNK = 50

/** Those that the issue depends on, in the order in which they were added. */
async function* dependenciesOf({ views }: Services, issue: PullDocument): AsyncGenerator<PullDocument> {
  const { dependencyKeys } = issue
  for (let i = 0; i < dependencyKeys.length; i += CHUNK) {
    yield* await views.pulls.getMany(dependencyKeys.slice(i, i + CHUNK))
  }
}

/** Those that depend on the issue, oldest first. */
async function* blockedBy({ views }: Services, issue: PullDocument): AsyncGenerator<PullDocument> {
  const filter = { dependencyKeys: pullId(issue.repoId, issue.index) }
  for (let skip = 0; ; skip += CHUNK) {
    const found = await views.pulls.find(filter, { sort: [['id', 1]], skip, limit: CHUNK })
    yield* found
    if (found.length < CHUNK) return
  }
}

/** The page asked for, of those that the requester may see: neither rows nor counts tell of the others. */
async function sendPage(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  query: { page?: string; limit?: string },
  issues: AsyncIterable<PullDocument>,
): Promise<Static<typeof IssueWire>[]> {
  const page = pageOf(query, services.config)
  const shown: PullDocument[] = []
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
          schema: {
            tags: ['issue'],
            params: IssueParams,
            querystring: Type.Object(PageQuery),
            response: { 200: Type.Array(IssueWire) },
          },
          config: { scope: 'issue' },
        },
        async (request, reply) => {
          const { repository } = await repositoryFor(services, request, request.params, 'read')
          const issue = await issueFor(services, repository.id, request.params.index)
          return sendPage(services, request, reply, request.query, list(services, issue))
        },
      )
    }
  }
}
