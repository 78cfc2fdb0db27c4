/** Changes an organization: `PATCH /orgs/{org}`. */

import { Type } from 'typebox'
import {
  OrganizationParams,
  OrganizationWire,
  organizationFor,
  organizationWire,
} from '../../api/organizations/organizations.ts'
import { isOwner } from '../../api/organizations/teams.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { isRefusal, Refused, refuse } from '../../errors/refusal.ts'
import type { OrganizationSettings } from '../../events/catalog/organizations.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import { organizations } from '../execution/aggregates.ts'
import { requestContext, settled } from '../execution/request-context.ts'
import {
  finishHiding,
  hideRepositories,
  recordOwnerVisibility,
} from '../repositories/ownership/owner-visibility.ts'
import { organizationOptions } from './options.ts'
import { decideEditOrganization, NOT_ITS_ADMIN } from './organization.decider.ts'
import { withOrganizationLock } from './organization-lock.ts'
import { decideStartHiding } from './visibility.ts'

const EditOrgOption = Type.Object(
  {
    ...organizationOptions,
    repo_admin_change_team_access: Type.Optional(
      Type.Boolean({
        description: 'Only false is supported: teams are changed by admins of the organization',
      }),
    ),
  },
  { title: 'EditOrgOption' },
)

/**
 * The answer waits until the repositories have the new visibility. To hide an organization, its repositories are hidden
 * first. After a crash the process `owner_visibility` continues.
 */
export const editOrganizationRoutes: Routes = (services) => async (app) => {
  const { accounts } = services.views
  app.patch(
    '/orgs/:org',
    route('organization', {
      params: OrganizationParams,
      body: EditOrgOption,
      response: { 200: OrganizationWire },
    }),
    async (request, reply) => {
      const actor = signedIn(request)
      const { id } = await organizationFor(services, request, request.params.org)
      if (!isOwner(actor, id)) throw new Refused(NOT_ITS_ADMIN)
      const { full_name, repo_admin_change_team_access, ...same } = request.body
      // Refuse instead of ignoring, since the client would rely on it.
      if (repo_admin_change_team_access === true) {
        throw new Refused(refuse.unprocessable('repo_admin_change_team_access: is not supported'))
      }
      const { description, email, location, website, visibility } = same
      const all = { fullName: full_name, description, email, location, website, visibility }
      const wanted: Partial<OrganizationSettings> = Object.fromEntries(
        Object.entries(all).filter(([, value]) => value != null),
      )
      const context = requestContext(request)
      const edit = () =>
        organizations.change(services, context, id, 'edit', (state) =>
          decideEditOrganization(state, actor, wanted),
        )
      const { visibility: wantedVisibility } = wanted
      if (wantedVisibility === undefined) await edit()
      else
        await withOrganizationLock(services, id, async () => {
          const refusal = decideEditOrganization(await organizations.load(services, id), actor, wanted)
          if (isRefusal(refusal)) throw new Refused(refusal)
          // An earlier request may have been interrupted.
          await finishHiding(services, context, id)
          await organizations.change(services, context, id, 'start hiding', (state) =>
            decideStartHiding(state, actor, wantedVisibility),
          )
          await hideRepositories(services, context, id)
          await edit()
          // Even without a change: an earlier request may have been interrupted here.
          await recordOwnerVisibility(services, context, id)
        })
      await settled(services, context, reply)
      const edited = await accounts.get(`${id}`)
      if (edited === undefined) throw notFoundIn(accounts, 'organization not found')
      return organizationWire(edited)
    },
  )
}
