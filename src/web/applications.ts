/** `/user/settings/applications`: a page for creating and deleting access tokens. The path is Gitea's. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { html } from 'ghtml'
import { Type } from 'typebox'
import { signedIn } from '../auth/requester.ts'
import { requestContext, settled } from '../commands/execution/request-context.ts'
import { createToken, deleteToken } from '../commands/users/tokens.ts'
import { Refused, refuse } from '../errors/refusal.ts'
import { tooManyValues } from '../http/bodies/json-bodies.ts'
import { basePath } from '../http/requests/base-path.ts'
import type { AccountDocument } from '../projections/models/users/accounts.fold.ts'
import type { TokenDocument } from '../projections/models/users/tokens.fold.ts'
import type { Services } from '../services/services.ts'
import { emptyState, type ListRow, listBox, time } from './components.ts'
import { FORM_POLICY, plainPage } from './layout.ts'
import { answerWithPages, HTML } from './pages.ts'

/** A form field. Each is a list, because a form may repeat a field. */
const one = (maxLength: number) =>
  Type.Array(Type.String({ minLength: 1, maxLength }), { minItems: 1, maxItems: 1 })
const NewToken = Type.Object({
  name: one(255),
  scopes: Type.Optional(Type.Array(Type.String({ maxLength: 50 }), { maxItems: 50 })),
})
const OldToken = Type.Object({ id: one(16) })

const MAX_FORM_BYTES = 16 * 1024
/** Maximum number of fields; the largest form of the page has fewer. */
const MAX_FIELDS = 64

/** Scopes that the page offers; API clients may request others. */
const OFFERED = [
  ['write:repository', 'clone, push and merge'],
  ['read:repository', 'clone and read'],
  ['write:issue', 'write issues and comments'],
  ['read:issue', 'read issues and comments'],
  ['write:organization', 'change organizations'],
  ['write:user', 'change your settings'],
  ['read:user', 'read your settings'],
  ['all', 'everything that you may do'],
] as const

/** Maximum number of shown tokens. */
const MAX_SHOWN = 200

export function applicationRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { views, publicUrl } = services
  const path = () => `${basePath(publicUrl())}/user/settings/applications`

  /** Returns the owner of the tokens. A token must not create one with more permissions. @throws Refused */
  function ownerOf(request: FastifyRequest): AccountDocument {
    const requester = signedIn(request)
    if (request.tokenScopes === null) return requester
    throw new Refused(
      refuse.forbidden('an access token cannot create or delete tokens: sign in with a password or session'),
    )
  }

  async function pageFor(owner: AccountDocument, created?: { name: string; token: string }): Promise<string> {
    const { id: userId, login } = owner
    const tokens = await views.tokens.find({ userId }, { sort: [['id', -1]], limit: MAX_SHOWN })
    const title = `Access tokens of ${login}`
    const body = html`<h1>Access tokens of <bdi>${login}</bdi></h1>
<p>git and the API accept a token in place of a password.</p>
!${created === undefined ? '' : newTokenText(created)}
!${formText()}
!${listBox('<h2>Tokens</h2>', tokens.map(tokenRow), emptyState('You have no tokens'))}
<form method="post" action="${basePath(publicUrl())}/user/logout"><button>Sign out</button></form>`
    return plainPage(title, `${basePath(publicUrl())}/ui/assets`, body, login)
  }

  const newTokenText = ({ name, token }: { name: string; token: string }) =>
    html`<p class="notice" role="status">The token <b><bdi>${name}</bdi></b> is <code>${token}</code>. It is shown only this once.</p>`

  const formText = () => html`<form class="stack" method="post" action="${path()}">
<p><label>Name <input name="name" required maxlength="255"></label></p>
<fieldset><legend>Scopes</legend>
!${OFFERED.map(([scope, meaning]) => html`<p><label><input type="checkbox" name="scopes" value="${scope}"> <code>${scope}</code> ${meaning}</label></p>`).join('')}
</fieldset>
<p><button class="primary">Create token</button></p>
</form>`

  const tokenRow = ({ id, name, lastEight, scopes, createdAt }: TokenDocument): ListRow => ({
    title: html`<bdi>${name}</bdi>`,
    meta: html`…${lastEight}, ${scopes.join(', ')}, created on !${time(createdAt)}`,
    end: html`<form method="post" action="${path()}/delete"><input type="hidden" name="id" value="${id}"><button class="danger" aria-label="Delete ${name}">Delete</button></form>`,
  })

  return async (app) => {
    answerWithPages(app, FORM_POLICY)
    // The body is read only for a user who may submit a form.
    app.addHook('onRequest', async (request) => void ownerOf(request))
    app.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string', bodyLimit: MAX_FORM_BYTES },
      (_request, body, done) => {
        const text = body.toString()
        if (text.split('&', MAX_FIELDS + 1).length > MAX_FIELDS) return done(tooManyValues(MAX_FIELDS))
        const fields = new Map<string, string[]>()
        for (const [name, value] of new URLSearchParams(text)) {
          const values = fields.get(name)
          if (values === undefined) fields.set(name, [value])
          else values.push(value)
        }
        done(null, Object.fromEntries(fields))
      },
    )
    const config = { scope: 'user', forPages: true } as const

    app.get('/user/settings/applications', { config, schema: { hide: true } }, async (request, reply) => {
      const owner = ownerOf(request)
      reply.type(HTML).header('Cache-Control', 'private, no-store')
      return pageFor(owner)
    })

    app.post(
      '/user/settings/applications',
      { config, schema: { hide: true, body: NewToken } },
      async (request, reply) => {
        const owner = ownerOf(request)
        const {
          name: [name = ''],
          scopes = [],
        } = request.body
        const context = requestContext(request)
        const { token } = await createToken(services, context, owner, { name, scopes })
        await settled(services, context, reply)
        reply.type(HTML).header('Cache-Control', 'private, no-store')
        return pageFor(owner, { name, token })
      },
    )

    app.post(
      '/user/settings/applications/delete',
      { config, schema: { hide: true, body: OldToken } },
      async (request, reply) => {
        const owner = ownerOf(request)
        const context = requestContext(request)
        await deleteToken(services, context, owner, request.body.id[0] ?? '')
        await settled(services, context, reply)
        return reply.redirect(path(), 303)
      },
    )
  }
}
