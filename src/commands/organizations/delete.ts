/** Deletes an organization: `DELETE /orgs/{org}`. Its events stay. */

import { awaitPermissions } from '../../access/await-permissions.ts'
import { OrganizationParams, organizationFor } from '../../api/organizations/organizations.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { isRefusal, Refused } from '../../errors/refusal.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { Services } from '../../services/services.ts'
import { organizations } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { requestContext, settled } from '../execution/request-context.ts'
import { endTransfersTo } from '../repositories/ownership/end-transfers.ts'
import { whileDeleting } from '../users/accounts/deletion.ts'
import { decideDeleteOrganization, type MemberActor } from './organization.decider.ts'
import { withOrganizationLock } from './organization-lock.ts'

/**
 * Deletes an organization without repositories. One append ends it with its members and teams, so a crash leaves all or
 * nothing. Processes then end its transfers, webhooks and labels. The login stays claimed, because events name accounts
 * by it.
 */
async function deleteOrganization(
  services: Services,
  context: CommandContext,
  organization: AccountRef,
  actor: MemberActor,
): Promise<void> {
  const { id } = organization
  const owned = () => services.views.repositories.count({ ownerId: id })
  const refusal = decideDeleteOrganization(await organizations.load(services, id), actor, await owned())
  if (isRefusal(refusal)) throw new Refused(refusal)
  await whileDeleting(services, context, { id, kind: 'organization' }, async () => {
    await awaitPermissions(services)
    const repositories = await owned()
    await organizations.change(services, context, id, 'delete organization', (state) =>
      decideDeleteOrganization(state, actor, repositories),
    )
  })
  await endTransfersTo(services, context, organization)
}

export const deleteOrganizationRoutes: Routes = (services) => async (app) => {
  app.delete(
    '/orgs/:org',
    route('organization', { params: OrganizationParams, response: NO_CONTENT }),
    async (request, reply) => {
      const actor = signedIn(request)
      const { id, login } = await organizationFor(services, request, request.params.org)
      const context = requestContext(request)
      await withOrganizationLock(services, id, () =>
        deleteOrganization(services, context, { id, login }, actor),
      )
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
