/** Lists of accounts: `/users/search`, `/orgs`, `/admin/users`, `/admin/orgs`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { visibilitiesFor } from '../../access/visibility.ts'
import { OrganizationWire, organizationWire } from '../../api/organizations/organizations.ts'
import { UserWire, userWire } from '../../api/users/users.ts'
import { siteAdmin } from '../../auth/requester.ts'
import { flagOf, OptionalText } from '../../http/requests/optional-text.ts'
import { PageQuery } from '../../http/requests/paging.ts'
import { onlyId } from '../../http/requests/path-number.ts'
import { partNamed } from '../../projections/models/repositories/name-parts.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Filter, Sort } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { filteredListSchema, listSchema, pagedList, refuseFilters } from '../paged-list.ts'

const BY_LOGIN: Sort<AccountDocument> = [['loginKey', 1]]
const USERS: Filter<AccountDocument> = { kind: 'user', deleted: false }
const ORGANIZATIONS: Filter<AccountDocument> = { kind: 'organization', deleted: false }

function named(q: string | undefined): Filter<AccountDocument> {
  const part = partNamed(q ?? '')
  return part === undefined ? {} : { nameParts: { $words: [part] } }
}

const AdminUserFilters = {
  q: OptionalText('Part of the login or of the full name'),
  login_name: OptionalText('Not supported: accounts have no other name at their source'),
  source_id: OptionalText('Only 0: this server is the only source of accounts'),
  is_active: OptionalText('true: only active accounts; false: only the others'),
  is_admin: OptionalText('true: only site admins; false: only the others'),
  is_prohibit_login: OptionalText('true: only accounts that may not sign in; false: only the others'),
}

/** Gitea's filters that this list lacks. */
const UNSUPPORTED = [
  'login_name',
  'visibility',
  'sort',
  'order',
  'is_restricted',
  'is_2fa_enabled',
  'created_after',
  'created_before',
]

export function accountListRoutes(services: Services): FastifyPluginAsyncTypebox {
  const view = services.views.accounts

  return async (app) => {
    app.get(
      '/users/search',
      {
        config: { scope: 'user' },
        schema: {
          tags: ['user'],
          querystring: Type.Object({
            q: OptionalText('Part of the login or of the full name'),
            uid: OptionalText('Id of the user'),
            ...PageQuery,
          }),
          response: { 200: Type.Object({ ok: Type.Boolean(), data: Type.Array(UserWire) }) },
        },
      },
      async (request, reply) => {
        const { query, requester } = request
        const found = await pagedList(services, request, reply, {
          view,
          filter: { ...USERS, ...named(query.q), ...onlyId(query.uid) },
          sort: BY_LOGIN,
        })
        return { ok: true, data: found.map((user) => userWire(user, services.publicUrl(), requester)) }
      },
    )

    app.get(
      '/orgs',
      {
        // As in Gitea, any token is enough.
        config: { scope: [] },
        schema: { tags: ['organization'], ...listSchema(OrganizationWire) },
      },
      async (request, reply) => {
        const visibility = { $in: visibilitiesFor(request.requester) }
        const filter = { ...ORGANIZATIONS, visibility }
        const found = await pagedList(services, request, reply, { view, filter, sort: BY_LOGIN })
        return found.map(organizationWire)
      },
    )

    app.get(
      '/admin/users',
      {
        config: { scope: 'admin' },
        schema: { tags: ['admin'], ...filteredListSchema(UserWire, AdminUserFilters) },
      },
      async (request, reply) => {
        const requester = siteAdmin(request, 'list users')
        const { query } = request
        refuseFilters(query, query.source_id === '0' ? UNSUPPORTED : ['source_id', ...UNSUPPORTED])
        const { q, is_active, is_admin, is_prohibit_login } = query
        const filter: Filter<AccountDocument> = {
          ...USERS,
          ...named(q),
          ...(is_active && { active: flagOf(is_active, false) }),
          ...(is_admin && { siteAdmin: flagOf(is_admin, false) }),
          ...(is_prohibit_login && { prohibitLogin: flagOf(is_prohibit_login, false) }),
        }
        const found = await pagedList(services, request, reply, { view, filter, sort: BY_LOGIN })
        return found.map((account) => userWire(account, services.publicUrl(), requester))
      },
    )

    app.get(
      '/admin/orgs',
      { config: { scope: 'admin' }, schema: { tags: ['admin'], ...listSchema(OrganizationWire) } },
      async (request, reply) => {
        siteAdmin(request, 'list all organizations')
        const found = await pagedList(services, request, reply, {
          view,
          filter: ORGANIZATIONS,
          sort: BY_LOGIN,
        })
        return found.map(organizationWire)
      },
    )
  }
}
