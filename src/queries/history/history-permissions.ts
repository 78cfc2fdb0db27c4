/** The part of a history that a requester may see, checked at the start and before each batch. */
import type { FastifyRequest } from 'fastify'
import { accessTo, atLeast } from '../../access/access.ts'
import { hasHidden, historyJson, type ShownParts } from '../../api/history/history.ts'
import { isSignInValid } from '../../auth/sign-in.ts'
import { missingScopes } from '../../auth/token-scopes.ts'
import { LOG_START } from '../../events/store/event-store.ts'
import { maySignIn } from '../../projections/models/users/accounts.fold.ts'
import type { Projector } from '../../projections/projector/projector.ts'
import type { Services } from '../../services/services.ts'
import { eventMatchesFilter, type HistoryFilter } from './history-filter.ts'
import type { Delivery } from './history-source.ts'

/** Visible events (a condition to add to the filter) and parts of them. */
interface Visible {
  events?: Pick<HistoryFilter, 'adminsOnly' | 'issueWords'>
  parts?: ShownParts
}

/** Reads the current permissions of the requester; undefined after a loss of access. */
export type HistoryPermissions = () => Promise<Visible | undefined>

export function repositoryPermissions(
  services: Services,
  request: FastifyRequest,
  repoId: number,
): HistoryPermissions {
  return async () => {
    const [requester, repository] = await Promise.all([
      currentRequester(services, request),
      services.views.repositories.get(`${repoId}`),
    ])
    if (requester === undefined || repository === undefined) return undefined
    const access = accessTo(repository, requester)
    if (!atLeast(access, 'read')) return undefined
    return {
      events: { ...(!atLeast(access, 'admin') && { adminsOnly: false }), ...wordsFor(request) },
      parts: {
        ...(!atLeast(access, 'write') && { pushOptions: false }),
        ...(!atLeast(access, 'admin') && { decision: false }),
      },
    }
  }
}

/** For tokens, issues, comments, labels and milestones need their own scope in every answer. */
function wordsFor({ tokenScopes }: FastifyRequest): Pick<HistoryFilter, 'issueWords'> {
  const mayRead = tokenScopes === null || missingScopes(tokenScopes, ['issue'], 'read').length === 0
  return mayRead ? {} : { issueWords: false }
}

/** Readers of the repository see the whole history of an issue or pull request, within the scopes of their token. */
export function discussionPermissions(
  services: Services,
  request: FastifyRequest,
  repoId: number,
): HistoryPermissions {
  const permissions = repositoryPermissions(services, request, repoId)
  return async () => {
    const visible = await permissions()
    return visible && { ...visible, events: wordsFor(request) }
  }
}

export function siteAdminPermissions(services: Services, request: FastifyRequest): HistoryPermissions {
  return async () => ((await currentRequester(services, request))?.siteAdmin ? {} : undefined)
}

export interface HistoryRequest {
  filter: HistoryFilter
  permissions: HistoryPermissions
  projector: Pick<Projector, 'waitFor'>
  /** Aborted when the client disconnects or the server stops. */
  signal: AbortSignal
}

/**
 * Returns the visible events of a batch. Call it just before sending: it waits until the read models have all events of
 * the batch, which may change permissions. Undefined when the requester has lost access, or the client has
 * disconnected.
 */
export async function visibleOf(
  batch: readonly Delivery[],
  { filter, permissions, projector, signal }: HistoryRequest,
): Promise<Delivery[] | undefined> {
  const position = batch.at(-1)?.event.position ?? LOG_START
  while (!(await projector.waitFor(position, 1000)) && !signal.aborted);
  const visible = await permissions()
  if (visible === undefined || signal.aborted) return undefined
  const { events = {}, parts = {} } = visible
  const visibleFilter = { ...filter, ...events }
  const seen = batch.filter(({ event }) => eventMatchesFilter(visibleFilter, event))
  return seen.map(({ event, json }) => ({
    event,
    json: hasHidden(event, parts) ? historyJson(event, parts) : json,
  }))
}

/** Returns the current account of the requester; null: anonymous; undefined: the sign-in is no longer valid. */
async function currentRequester({ views }: Services, { requester, tokenId, sudo }: FastifyRequest) {
  if (requester === null) return null
  const hasToken = tokenId !== null && (await views.tokens.get(`${tokenId}`)) !== undefined
  const account = await views.accounts.get(`${requester.id}`)
  if (sudo !== null) {
    // The credentials are those of the admin, which may have lost the role.
    const admin = await views.accounts.get(`${sudo.id}`)
    const isAdmin = admin?.siteAdmin === true && isSignInValid({ account: sudo, tokenId }, admin, hasToken)
    return isAdmin && account !== undefined && maySignIn(account) ? account : undefined
  }
  return isSignInValid({ account: requester, tokenId }, account, hasToken) ? account : undefined
}
