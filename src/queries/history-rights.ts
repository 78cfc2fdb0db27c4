/** Who may see a history, and what of it: asked when it is opened, and again while it is followed. */
import type { FastifyRequest } from 'fastify'
import type { DomainEvent } from '../events/domain-events.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import type { Services } from '../services.ts'
import { type Access, accessTo, atLeast } from './access.ts'

/** The types that are hidden from the requester as the rights are now; undefined: nothing may be seen any more. */
export type Rights = () => Promise<ReadonlySet<string> | undefined>

/** They tell who has access, and how branches are protected: a matter of those who set it. */
const FOR_ADMINS: ReadonlySet<string> = new Set<DomainEvent['type']>([
  'CollaboratorSet',
  'CollaboratorRemoved',
  'BranchProtectionSet',
  'BranchProtectionRemoved',
])
const NOTHING: ReadonlySet<string> = new Set()

/** What somebody with that access does not see of a repository's history. */
const hiddenFrom = (access: Access) => (atLeast(access, 'admin') ? NOTHING : FOR_ADMINS)

export function repositoryRights(services: Services, request: FastifyRequest, repoId: number): Rights {
  return async () => {
    const [requester, repository] = await Promise.all([
      requesterNow(services, request),
      services.views.repositories.get(`${repoId}`),
    ])
    if (requester === undefined || repository === undefined) return undefined
    const access = accessTo(repository, requester)
    return atLeast(access, 'read') ? hiddenFrom(access) : undefined
  }
}

/** Of an issue or pull request: nothing of it is hidden from who may read the repository. */
export function discussionRights(services: Services, request: FastifyRequest, repoId: number): Rights {
  const rights = repositoryRights(services, request, repoId)
  return async () => ((await rights()) === undefined ? undefined : NOTHING)
}

export function siteAdminRights(services: Services, request: FastifyRequest): Rights {
  return async () => ((await requesterNow(services, request))?.siteAdmin ? NOTHING : undefined)
}

/** Null: anonymous; undefined: the account or the token is gone. */
async function requesterNow(
  { views }: Services,
  { requester, tokenId }: FastifyRequest,
): Promise<AccountDocument | null | undefined> {
  if (requester === null) return null
  if (tokenId !== null && (await views.tokens.get(`${tokenId}`)) === undefined) return undefined
  return views.accounts.get(`${requester.id}`)
}
