/**
 * Sets and removes members of an organization: `PUT` and `DELETE /orgs/{org}/members/{username}`. Gitea adds members
 * to teams; here a member has one permission for all repositories of the organization.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { AccountRef, OrganizationEvent } from '../../events/domain-events.ts'
import { organizationStream } from '../../events/streams.ts'
import { signedIn } from '../../rights/requester.ts'
import type { Services } from '../../services.ts'
import { Nullable } from '../../wire/nullable.ts'
import { MemberParams, organizationFor } from '../../wire/organizations.ts'
import { userNamed } from '../../wire/users.ts'
import type { Decision } from '../execute.ts'
import { executeRequest } from '../request-context.ts'
import {
  decideRemoveMember,
  decideSetMember,
  type MemberActor,
  type OrganizationState,
  organizationDecider,
} from './organization.ts'

const SetMemberOption = Type.Object({
  permission: Type.Optional(Type.Enum(['read', 'write', 'admin'])),
})

export function memberRoutes(services: Services): FastifyPluginAsyncTypebox {
  type Decide = (
    state: OrganizationState,
    actor: MemberActor,
    user: AccountRef,
  ) => Decision<OrganizationEvent>

  async function change(
    request: FastifyRequest,
    reply: FastifyReply,
    path: { org: string; username: string },
    step: string,
    decide: Decide,
  ) {
    const actor = signedIn(request)
    const organization = await organizationFor(services, request, path.org)
    const { id, login } = await userNamed(services, path.username)
    await executeRequest(services, request, reply, {
      stream: organizationStream(organization.id),
      step,
      decider: organizationDecider,
      decide: (state) => decide(state, actor, { id, login }),
    })
    return reply.code(204).send(null)
  }

  return async (app) => {
    const tags = ['organization']
    const config = { scope: 'organization' } as const

    app.put(
      '/orgs/:org/members/:username',
      {
        config,
        schema: {
          tags,
          params: MemberParams,
          body: Nullable(SetMemberOption),
          response: { 204: Type.Null() },
        },
      },
      async (request, reply) => {
        const permission = request.body?.permission ?? 'write'
        return change(request, reply, request.params, 'set member', (state, actor, user) =>
          decideSetMember(state, actor, user, permission),
        )
      },
    )

    app.delete(
      '/orgs/:org/members/:username',
      { config, schema: { tags, params: MemberParams, response: { 204: Type.Null() } } },
      async (request, reply) => change(request, reply, request.params, 'remove member', decideRemoveMember),
    )
  }
}
