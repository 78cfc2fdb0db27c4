/** `GET /`: a small page with the readable repositories, sign-in and documentation. Also `robots.txt`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { html } from 'ghtml'
import { Type } from 'typebox'
import { readableBy } from '../access/access.ts'
import { signedIn } from '../auth/requester.ts'
import { basePath } from '../http/requests/base-path.ts'
import { PageQuery, pageOf } from '../http/requests/paging.ts'
import type { RepositoryDocument } from '../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../services/services.ts'
import { CONTENT_SECURITY_POLICY, plainPage } from './layout.ts'
import { answerWithPages, HTML } from './pages.ts'

/** Keeps robots from routes that start git, and from the pages of each moment of a history. */
const ROBOTS = `User-agent: *
Disallow: /api/
Disallow: /*/archive/
Disallow: /*/raw/
Disallow: /*?revision=
`

const HomeQuery = Type.Object({
  ...PageQuery,
  sign_in: Type.Optional(Type.String({ maxLength: 10, description: 'asks a browser for a password' })),
})

export function homeRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { views, publicUrl } = services

  return async (app) => {
    answerWithPages(app, CONTENT_SECURITY_POLICY)

    app.get('/robots.txt', { schema: { hide: true } }, async (_request, reply) =>
      reply.type('text/plain; charset=utf-8').send(ROBOTS),
    )

    app.get(
      '/',
      { config: { scope: 'repository', forPages: true }, schema: { hide: true, querystring: HomeQuery } },
      async (request, reply) => {
        const { page, skip, limit } = pageOf(request.query, services.config)
        const base = basePath(publicUrl())
        if (request.query.sign_in !== undefined) {
          // A browser sends the password to all paths below this one from now on.
          signedIn(request)
          return reply.header('Cache-Control', 'no-store').redirect(`${base}/`, 303)
        }
        const { requester } = request
        const found = await views.repositories.find(readableBy(requester), {
          sort: [['id', -1]],
          skip,
          limit: limit + 1,
        })
        reply.type(HTML).header('Cache-Control', 'private, no-store')
        const more = found.length > limit ? page + 1 : undefined
        return plainPage(
          'Mergelog',
          `${base}/ui/assets`,
          html`<h1>Mergelog</h1>
<p>!${requester === null ? html`<a href="${base}/user/login">Sign in</a>` : html`You are <bdi>${requester.login}</bdi>. <a href="${base}/user/settings/applications">Your access tokens</a>`} · <a href="${base}/api/docs">Documentation of the API</a></p>
<h2>Repositories</h2>
!${found.length === 0 ? '<p class="none">There are no repositories that you may read.</p>' : html`<ul>!${found.slice(0, limit).map((one) => item(one, base))}</ul>`}
!${more === undefined ? '' : html`<p><a href="${base}/?${`page=${more}&limit=${limit}`}">Older repositories</a></p>`}`,
        )
      },
    )
  }
}

function item({ ownerLogin, name, description }: RepositoryDocument, base: string): string {
  const path = `${base}/${ownerLogin}/${name}`
  return html`<li><a href="${path}"><bdi>${ownerLogin}/${name}</bdi></a> (<a href="${path}/pulls">pull requests</a>, <a href="${path}/issues">issues</a>) <bdi>${description}</bdi></li>
`
}
