/** Who may see a history, and what of it: asked when it is opened, and again while it is read or followed. */

import type { FastifyRequest } from 'fastify'
import { LOG_START } from '../events/event-store.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import type { Projector } from '../projections/projector.ts'
import { accessTo, atLeast } from '../rights/access.ts'
import type { Services } from '../services.ts'
import { type HistoryFilter, isEventAskedFor } from './history-filter.ts'
import type { Delivery } from './history-source.ts'

/**
 * The part of a history that the requester may see, as the rights are now: a condition for every filter. Undefined:
 * nothing may be seen any more.
 */
export type Rights = () => Promise<Pick<HistoryFilter, 'adminsOnly'> | undefined>

export function repositoryRights(services: Services, request: FastifyRequest, repoId: number): Rights {
  return async () => {
    const [requester, repository] = await Promise.all([
      requesterNow(services, request),
      services.views.repositories.get(`${repoId}`),
    ])
    if (requester === undefined || repository === undefined) return undefined
    const access = accessTo(repository, requester)
    if (!atLeast(access, 'read')) return undefined
    return atLeast(access, 'admin') ? {} : { adminsOnly: false }
  }
}

/** Whoever may read the repository sees all of an issue or pull request. */
export function discussionRights(services: Services, request: FastifyRequest, repoId: number): Rights {
  const rights = repositoryRights(services, request, repoId)
  return async () => ((await rights()) === undefined ? undefined : {})
}

export function siteAdminRights(services: Services, request: FastifyRequest): Rights {
  return async () => ((await requesterNow(services, request))?.siteAdmin ? {} : undefined)
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
  const visible = await rights()
  if (visible === undefined || signal.aborted) return undefined
  const asked = { ...filter, ...visible }
  return batch.filter(({ event }) => isEventAskedFor(asked, event))
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
