/** Who can be asked: `/repos/{owner}/{repo}/reviewers`, and `/assignees`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import type { Permission } from '../../events/domain-events.ts'
import type { RepositoryDocument } from '../../projections/repositories.ts'
import { Refused, refuse } from '../../refusal.ts'
import { accessTo, atLeast, isStranger } from '../../rights/access.ts'
import { onRepository } from '../../rights/repository-access.ts'
import { signedIn } from '../../rights/requester.ts'
import type { Services } from '../../services.ts'
import { RepositoryParams } from '../../wire/repositories.ts'
import { UserWire, userWire } from '../../wire/users.ts'
import { listSchema, type PageRequest, rowsOrPage } from '../paged-list.ts'

export function candidateRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { accounts } = services.views

  /** The people of a repository with at least this access, by login: its owner, members and collaborators. */
  async function peopleOf(repository: RepositoryDocument, needed: Permission) {
    const owner = await accounts.get(`${repository.ownerId}`)
    const ids = new Set([
      `${repository.ownerId}`,
      ...(owner?.members ?? []).map(({ id }) => `${id}`),
      ...Object.keys(repository.collaborators),
    ])
    const people = await accounts.getMany([...ids])
    return people
      .filter(({ kind, deleted }) => kind === 'user' && !deleted)
      .filter((account) => atLeast(accessTo(repository, account), needed))
      .sort((a, b) => (a.loginKey < b.loginKey ? -1 : 1))
  }

  async function list(
    request: PageRequest & Parameters<typeof onRepository>[1],
    reply: FastifyReply,
    needed: Permission,
  ) {
    const { repository } = await onRepository(services, request, 'read')
    if (isStranger(repository, signedIn(request))) {
      throw new Refused(refuse.forbidden('only people of the repository may see its people'))
    }
    const rows = rowsOrPage(services, request, reply, await peopleOf(repository, needed))
    return rows.map((account) => userWire(account, services.publicUrl()))
  }

  return async (app) => {
    const schema = { tags: ['repository'], params: RepositoryParams, ...listSchema(UserWire) }
    app.get('/repos/:owner/:repo/reviewers', { schema }, (request, reply) => list(request, reply, 'read'))
    app.get('/repos/:owner/:repo/assignees', { schema }, (request, reply) => list(request, reply, 'write'))
  }
}
