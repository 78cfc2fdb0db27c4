/** Changes an organization: `PATCH /orgs/{org}`. */
import { Type } from 'typebox'
import type { OrganizationSettings } from '../../events/domain-events.ts'
import { notFoundIn } from '../../projections/view.ts'
import { Refused, refuse } from '../../refusal.ts'
import { signedIn } from '../../rights/requester.ts'
import { type Routes, route } from '../../rights/routes.ts'
import { GivenOrNull } from '../../wire/nullable.ts'
import {
  OrganizationParams,
  OrganizationWire,
  organizationFor,
  organizationWire,
} from '../../wire/organizations.ts'
import { organizations } from '../aggregates.ts'
import { showOwnerIn } from '../repositories/hidden-owners.ts'
import { requestContext, settled } from '../request-context.ts'
import { decideEditOrganization } from './organization.ts'

const EditOrgOption = Type.Object({
  full_name: GivenOrNull(Type.String({ maxLength: 100 })),
  description: GivenOrNull(Type.String({ maxLength: 255 })),
  email: GivenOrNull(Type.String()),
  location: GivenOrNull(Type.String({ maxLength: 50 })),
  website: GivenOrNull(Type.String({ maxLength: 255 })),
  visibility: GivenOrNull(Type.Enum(['public', 'limited', 'private'])),
  repo_admin_change_team_access: GivenOrNull(
    Type.Boolean({ description: 'true is not supported: only admins of the organization change its teams' }),
  ),
})

/**
 * The answer comes when the repositories of the organization have its visibility. After a crash in between, the process
 * `owner_visibility` does the rest.
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
      const { full_name, repo_admin_change_team_access, ...same } = request.body
      // Refuse it instead of ignoring it: the caller would rely on something that does not exist here.
      if (repo_admin_change_team_access === true) {
        throw new Refused(refuse.unprocessable('repo_admin_change_team_access: is not supported'))
      }
      const { description, email, location, website, visibility } = same
      const all = { fullName: full_name, description, email, location, website, visibility }
      const wanted: Partial<OrganizationSettings> = Object.fromEntries(
        Object.entries(all).filter(([, value]) => value != null),
      )
      const context = requestContext(request)
      await organizations.change(services, context, id, 'edit', (state) =>
        decideEditOrganization(state, actor, wanted),
      )
      // Also when nothing has changed: an earlier request may have been cut off before this.
      if (wanted.visibility !== undefined) await showOwnerIn(services, context, id)
      await settled(services, context, reply)
      const edited = await accounts.get(`${id}`)
      if (edited === undefined) throw notFoundIn(accounts, 'organization not found')
      return organizationWire(edited)
    },
  )
}
