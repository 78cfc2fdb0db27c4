/** Possible reviewers and assignees: `/repos/{owner}/{repo}/reviewers` and `/assignees`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { isPublicReaderOnly } from '../../access/access.ts'
import { onRepository } from '../../access/repository-access.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { UserWire, userWire } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { sendStreamedList } from '../../http/answers/streamed-list.ts'
import { sendOnePage, wantedPage } from '../../http/requests/paging.ts'
import {
  allRepositoriesOf,
  type RepositoryDocument,
} from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Filter, Sort } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, type PageRequest, pagedList } from '../paged-list.ts'

/** Number of users read and held at a time. */
const CHUNK = 200

const BY_LOGIN: Sort<AccountDocument> = [['loginKey', 1]]

/**
 * Returns the users of a repository: its owner or the organization's members, members of teams, and collaborators;
 * `writers` are those with write permission. Other readers of a public repository are left out.
 */
function peopleOf(
  { ownerId, ownerKind, teams, collaborators }: RepositoryDocument,
  writers: boolean,
): Filter<AccountDocument> {
  const invited = Object.entries(collaborators).filter(
    ([, { permission }]) => !writers || permission !== 'read',
  )
  const organization = ownerKind === 'organization' ? [allRepositoriesOf(ownerId), ...teams] : []
  const among = { $in: [ownerId, ...organization, ...invited.map(([id]) => Number(id))] }
  const present = { kind: 'user', deleted: false, active: true, prohibitLogin: false } as const
  return writers ? { ...present, writeGrantIds: among } : { ...present, grantIds: among }
}

export function candidateRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { accounts } = services.views

  /** Yields the users by login, in batches. Each read begins after the last login of the one before. */
  async function* inOrder(people: Filter<AccountDocument>) {
    for (let last = ''; ; ) {
      const filter = { ...people, loginKey: { $gt: last } }
      const found = await accounts.find(filter, { sort: BY_LOGIN, limit: CHUNK })
      yield found.map((account) => userWire(account, services.publicUrl()))
      if (found.length < CHUNK) return
      last = found.at(-1)?.loginKey ?? last
    }
  }

  /** As in Gitea, the list is complete without a requested page. */
  async function list(
    request: PageRequest & Parameters<typeof onRepository>[1],
    reply: FastifyReply,
    writers: boolean,
  ) {
    const { repository } = await onRepository(services, request, 'read')
    if (isPublicReaderOnly(repository, signedIn(request))) {
      throw new Refused(
        refuse.forbidden('only collaborators of the repository may see reviewers and assignees'),
      )
    }
    const filter = peopleOf(repository, writers)
    if (wantedPage(request.query, services.config) !== undefined) {
      const found = await pagedList(services, request, reply, { view: accounts, filter, sort: BY_LOGIN })
      return found.map((account) => userWire(account, services.publicUrl()))
    }
    sendOnePage(request, reply, services.publicUrl(), await accounts.count(filter))
    return sendStreamedList(reply, inOrder(filter))
  }

  return async (app) => {
    const schema = { tags: ['repository'], params: RepositoryParams, ...listSchema(UserWire) }
    app.get('/repos/:owner/:repo/reviewers', { schema }, (request, reply) => list(request, reply, false))
    app.get('/repos/:owner/:repo/assignees', { schema }, (request, reply) => list(request, reply, true))
  }
}
