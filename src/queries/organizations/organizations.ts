/**
 * Reads organizations: `/orgs/{org}`, its members (also those of teams, as in Gitea), and the organizations of a user.
 * Non-members see only public memberships.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { canSee, isMemberOf, maySeeMembers, maySeeMembership } from '../../access/visibility.ts'
import {
  MemberParams,
  OrganizationParams,
  OrganizationPermissionsWire,
  OrganizationWire,
  organizationFor,
  organizationPermissionsWire,
  organizationWire,
} from '../../api/organizations/organizations.ts'
import { UsernameParams, UserWire, userNamed, userWire } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, type PageRequest, pagedList, pagedRows } from '../paged-list.ts'

export function organizationQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { accounts } = services.views

  /** Returns a page of the user's organizations that the requester may see. */
  async function organizationsOf(user: AccountDocument, request: PageRequest, reply: FastifyReply) {
    const all = await accounts.getMany(user.organizationIds.map(String))
    const { requester } = request
    const visible = all.filter(
      (organization) => canSee(organization, requester) && maySeeMembership(organization.id, user, requester),
    )
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

    for (const path of ['members', 'public_members'] as const) {
      const knowsAll = (organizationId: number, viewer: AccountDocument | null) =>
        path === 'members' && maySeeMembers(organizationId, viewer)

      app.get(
        `/orgs/:org/${path}`,
        { config, schema: { tags, params: OrganizationParams, ...listSchema(UserWire) } },
        async (request, reply) => {
          const { requester } = request
          const { id } = await organizationFor(services, request, request.params.org)
          const users = await pagedList(services, request, reply, {
            view: accounts,
            filter: knowsAll(id, requester) ? { organizationIds: id } : { publicOrganizationIds: id },
            sort: [['loginKey', 1]],
          })
          return users.map((user) => userWire(user, services.publicUrl(), requester))
        },
      )

      app.get(
        `/orgs/:org/${path}/:username`,
        { config, schema: { tags, params: MemberParams, response: { 204: Type.Null() } } },
        async (request, reply) => {
          const { id } = await organizationFor(services, request, request.params.org)
          const user = await userNamed(services, request.params.username)
          const isFound = knowsAll(id, request.requester)
            ? isMemberOf(id, user)
            : user.publicOrganizationIds.includes(id)
          if (isFound) return reply.code(204).send(null)
          throw new Refused(
            refuse.notFound(`${user.login} is not a ${path === 'members' ? '' : 'public '}member`),
          )
        },
      )
    }

    app.get(
      '/users/:username/orgs/:org/permissions',
      {
        config: listConfig,
        schema: { tags, params: MemberParams, response: { 200: OrganizationPermissionsWire } },
      },
      async (request) => {
        const requester = signedIn(request)
        const user = await userNamed(services, request.params.username)
        const organization = await organizationFor(services, request, request.params.org)
        if (!canSee(organization, user)) throw new Refused(refuse.notFound('organization not found'))
        // A hidden membership gets the answer for a non-member.
        const isKnown = maySeeMembership(organization.id, user, requester)
        return organizationPermissionsWire(organization, isKnown ? user : null)
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
