/**
 * Reading organizations: `/orgs/{org}`, its members (also those of teams, as in Gitea), and the organizations of a
 * user.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import type { AccountDocument } from '../projections/accounts.ts'
import { Refused, refuse } from '../refusal.ts'
import { signedIn } from '../rights/requester.ts'
import { belongsTo, canSee } from '../rights/visibility.ts'
import type { Services } from '../services.ts'
import {
  MemberParams,
  OrganizationParams,
  OrganizationWire,
  organizationFor,
  organizationWire,
} from '../wire/organizations.ts'
import { UsernameParams, UserWire, userNamed, userWire } from '../wire/users.ts'
import { listSchema, type PageRequest, pagedList, pagedRows } from './paged-list.ts'

export function organizationQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { accounts } = services.views

  /** A page of the organizations that a user is a member of, or in a team of, and the requester may see. */
  async function organizationsOf(user: AccountDocument, request: PageRequest, reply: FastifyReply) {
    const all = await accounts.getMany(user.organizationIds.map(String))
    const visible = all.filter((organization) => canSee(organization, request.requester))
    return pagedRows(services, request, reply, visible).map(organizationWire)
  }

  return async (app) => {
    const tags = ['organization']
    const config = { scope: 'organization' } as const
    const listConfig = { scope: ['user', 'organization'] } as const

    app.get(
      '/orgs/:org',
      { config, schema: { tags, params: OrganizationParams, response: { 200: OrganizationWire } } },
      async (request) => organizationWire(await organizationFor(services, request, request.params.org)),
    )

    app.get(
      '/orgs/:org/members',
      { config, schema: { tags, params: OrganizationParams, ...listSchema(UserWire) } },
      async (request, reply) => {
        const { id } = await organizationFor(services, request, request.params.org)
        const users = await pagedList(services, request, reply, {
          view: accounts,
          filter: { organizationIds: id },
          sort: [['loginKey', 1]],
        })
        return users.map((user) => userWire(user, services.publicUrl(), request.requester))
      },
    )

    app.get(
      '/orgs/:org/members/:username',
      { config, schema: { tags, params: MemberParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { id } = await organizationFor(services, request, request.params.org)
        const user = await userNamed(services, request.params.username)
        if (!belongsTo(id, user)) {
          throw new Refused(refuse.notFound(`${user.login} is not a member`))
        }
        return reply.code(204).send(null)
      },
    )

    app.get(
      '/users/:username/orgs',
      { config: listConfig, schema: { tags, params: UsernameParams, ...listSchema(OrganizationWire) } },
      async (request, reply) =>
        organizationsOf(await userNamed(services, request.params.username), request, reply),
    )

    app.get(
      '/user/orgs',
      { config: listConfig, schema: { tags, ...listSchema(OrganizationWire) } },
      async (request, reply) => organizationsOf(signedIn(request), request, reply),
    )
  }
}
