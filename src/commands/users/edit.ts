/** Changes users: `PATCH /admin/users/{username}` for site admins, `PATCH /user/settings` for the requester. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import {
  UsernameParams,
  UserSettingsWire,
  UserWire,
  userNamed,
  userSettingsWire,
  userWire,
} from '../../api/users/users.ts'
import { signedIn, siteAdmin } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { UserSettings } from '../../events/catalog/users.ts'
import { requestContext, settled } from '../execution/request-context.ts'
import { changeUser, hasOtherAdmin, requireStillAdmin, type UserChange } from './change.ts'

/** Profile fields, which users may change themselves. */
const ProfileOption = Type.Object(
  {
    full_name: Type.Optional(Type.String({ maxLength: 100 })),
    description: Type.Optional(Type.String({ maxLength: 255 })),
    location: Type.Optional(Type.String({ maxLength: 50 })),
    website: Type.Optional(Type.String({ maxLength: 255 })),
  },
  { title: 'ProfileOption' },
)

/**
 * `allow_git_hook` and `allow_import_local` are ignored: their features are off by default in Gitea and missing here.
 * Terraform's provider always sends both as true.
 */
const EditUserOption = Type.Object(
  {
    ...ProfileOption.properties,
    email: Type.Optional(Type.String()),
    password: Type.Optional(Type.String()),
    must_change_password: Type.Optional(Type.Boolean()),
    active: Type.Optional(Type.Boolean()),
    prohibit_login: Type.Optional(Type.Boolean()),
    admin: Type.Optional(Type.Boolean()),
    login_name: Type.Optional(Type.String()),
    source_id: Type.Optional(Type.Integer()),
    visibility: Type.Optional(Type.String()),
    restricted: Type.Optional(Type.Boolean()),
    allow_git_hook: Type.Optional(Type.Boolean()),
    allow_import_local: Type.Optional(Type.Boolean()),
    allow_create_organization: Type.Optional(Type.Boolean()),
    max_repo_creation: Type.Optional(Type.Integer()),
  },
  { title: 'EditUserOption' },
)

const UserSettingsOptions = Type.Object(
  {
    ...ProfileOption.properties,
    hide_email: Type.Optional(Type.Boolean()),
    language: Type.Optional(Type.String()),
    theme: Type.Optional(Type.String()),
    diff_view_style: Type.Optional(Type.String()),
    hide_activity: Type.Optional(Type.Boolean()),
  },
  { title: 'UserSettingsOptions' },
)

/** Unsupported fields, with the value that changes nothing. */
const UNSUPPORTED: Record<string, unknown> = {
  login_name: '',
  source_id: 0,
  visibility: 'public',
  restricted: false,
  allow_create_organization: true,
  max_repo_creation: -1,
  language: '',
  theme: '',
  diff_view_style: '',
  hide_activity: false,
}

/** Rejects unsupported fields, since the client would rely on them. */
function requireSupported(body: object): void {
  const errors = Object.entries(body).flatMap(([field, value]) => {
    if (!Object.hasOwn(UNSUPPORTED, field) || value == null || value === '') return []
    return value === UNSUPPORTED[field] ? [] : [`${field}: is not supported`]
  })
  if (errors.length > 0) throw new Refused(refuse.unprocessable(errors.join('; '), errors))
}

/** Returns the given settings; null counts as absent. */
function given(
  settings: { [K in keyof UserSettings]?: UserSettings[K] | null | undefined },
): Partial<UserSettings> {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value != null))
}

const profileOf = ({
  full_name: fullName,
  description,
  location,
  website,
}: Static<typeof ProfileOption>) => ({
  fullName,
  description,
  location,
  website,
})

export const editUserRoutes: Routes = (services) => {
  async function change(request: FastifyRequest, reply: FastifyReply, id: number, wanted: UserChange) {
    const context = requestContext(request)
    // Called only when a site admin loses that role, under their lock.
    const otherAdmin = async () => {
      await requireStillAdmin(services, signedIn(request))
      return hasOtherAdmin(services, id)
    }
    await changeUser(services, context, id, wanted, otherAdmin)
    await settled(services, context, reply)
    const account = await services.views.accounts.get(`${id}`)
    if (account === undefined || account.deleted) throw new Refused(refuse.notFound('user not found'))
    return account
  }

  return async (app) => {
    const admin = route('admin', {
      params: UsernameParams,
      body: EditUserOption,
      response: { 200: UserWire },
    })
    app.patch(
      '/admin/users/:username',
      // Admins may deactivate themselves, or change the password of this sign-in.
      { ...admin, config: { ...admin.config, outlivesSignIn: true } },
      async (request, reply) => {
        const requester = siteAdmin(request, 'change users')
        const { body } = request
        const { id, login } = await userNamed(services, request.params.username)
        requireSupported({ ...body, login_name: body.login_name === login ? '' : body.login_name })
        const text = body.password || undefined
        const password = text && { text, mustChange: body.must_change_password ?? false }
        const account = await change(request, reply, id, {
          changes: given({
            ...profileOf(body),
            email: body.email,
            siteAdmin: body.admin,
            active: body.active,
            prohibitLogin: body.prohibit_login,
            mustChangePassword: body.must_change_password,
          }),
          password: password || undefined,
        })
        return userWire(account, services.publicUrl(), requester)
      },
    )

    app.patch(
      '/user/settings',
      route('user', { body: UserSettingsOptions, response: { 200: UserSettingsWire } }),
      async (request, reply) => {
        const requester = signedIn(request)
        const { body } = request
        requireSupported(body)
        const showEmail = body.hide_email == null ? undefined : !body.hide_email
        const changes = given({ ...profileOf(body), showEmail })
        return userSettingsWire(await change(request, reply, requester.id, { changes }))
      },
    )
  }
}
