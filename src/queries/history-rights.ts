/** Who may see a history, and what of it: asked when it is opened, and again while it is read or followed. */
import type { FastifyRequest } from 'fastify'
import type { DomainEvent } from '../events/domain-events.ts'
import { LOG_START } from '../events/event-store.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import type { Projector } from '../projections/projector.ts'
import type { Services } from '../services.ts'
import { type Access, accessTo, atLeast } from './access.ts'
import { type HistoryFilter, isEventHistoryRequestFor } from './history-filter.ts'
import type { Delivery } from './history-source.ts'

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

export interface HistoryRequest {
  filter: HistoryFilter
  rights: Rights
  projector: Pick<Projector, 'waitFor'>
  /** The client is gone, or the server stops. */
  signal: AbortSignal
}

/**
 * What the requester may see of a batch, by the rights as all of its events left them or later: to be asked for
 * just before the batch is sent. Undefined: nothing may be seen any more, or nobody waits for it.
 */
export async function seenOf(
  batch: readonly Delivery[],
  { filter, rights, projector, signal }: HistoryRequest,
): Promise<Delivery[] | undefined> {
  const position = batch.at(-1)?.event.position ?? LOG_START
  while (!(await projector.waitFor(position, 1000)) && !signal.aborted);
  const hidden = await rights()
  if (hidden === undefined || signal.aborted) return undefined
  const asked = { ...filter, hidden }
  return batch.filter(({ event }) => isEventHistoryRequestFor(asked, event))
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
