/**
 * Sets and removes members of an organization: `PUT` and `DELETE /orgs/{org}/members/{username}`. Gitea adds members to
 * teams; here a member has one permission for all repositories. `public_members` shows or hides a membership.
 */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { Nullable } from '../../api/nullable.ts'
import { MemberParams, organizationFor } from '../../api/organizations/organizations.ts'
import { isOwner } from '../../api/organizations/teams.ts'
import { userNamed } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused } from '../../errors/refusal.ts'
import { hasValidBody } from '../../http/requests/deferred-validation.ts'
import { organizations } from '../execution/aggregates.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { requireMemberStays } from './deleted-members.ts'
import { requireOrganizationQuota } from './membership-limits.ts'
import {
  decideRemoveMember,
  decideSetMember,
  decideShowMembership,
  NOT_ADMIN,
} from './organization.decider.ts'

const SetMemberOption = Type.Object(
  {
    permission: Type.Optional(Type.Enum(['read', 'write', 'admin'])),
  },
  { title: 'SetMemberOption' },
)

export const memberRoutes: Routes = (services) => {
  async function change(
    request: FastifyRequest,
    reply: FastifyReply,
    path: Static<typeof MemberParams>,
    step: 'set member' | 'remove member' | 'show membership',
    decide: typeof decideRemoveMember,
  ) {
    const actor = signedIn(request)
    const organization = await organizationFor(services, request, path.org)
    const account = await userNamed(services, path.username)
    const { id, login } = account
    // Check the limit only for a requester who may add members, so that other clients do not learn it.
    if (step === 'set member' && isOwner(actor, organization.id))
      requireOrganizationQuota(account, organization.id)
    if (!hasValidBody(request) && !isOwner(actor, organization.id)) throw new Refused(NOT_ADMIN)
    const context = commandContext(request)
    await organizations.change(services, context, organization.id, step, (state) =>
      decide(state, actor, { id, login }),
    )
    if (step === 'set member') await requireMemberStays(services, context, organization.id, { id, login })
    await settled(services, context, reply)
    return reply.code(204).send(null)
  }

  return async (app) => {
    app.put(
      '/orgs/:org/members/:username',
      route('organization', {
        params: MemberParams,
        body: Nullable(SetMemberOption),
        response: NO_CONTENT,
      }),
      async (request, reply) =>
        change(request, reply, request.params, 'set member', (state, actor, user) =>
          decideSetMember(state, actor, user, request.body?.permission ?? 'write'),
        ),
    )

    app.delete(
      '/orgs/:org/members/:username',
      route('organization', { params: MemberParams, response: NO_CONTENT }),
      async (request, reply) => change(request, reply, request.params, 'remove member', decideRemoveMember),
    )

    for (const method of ['PUT', 'DELETE'] as const) {
      app.route({
        method,
        url: '/orgs/:org/public_members/:username',
        ...route('organization', { params: MemberParams, response: NO_CONTENT }),
        handler: async (request, reply) =>
          change(request, reply, request.params, 'show membership', (state, actor, user) =>
            decideShowMembership(state, actor, user, method === 'PUT'),
          ),
      })
    }
  }
}
