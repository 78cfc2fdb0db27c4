/** `GET /`: the readable repositories with search, and recent activity. Also `/{owner}` and `robots.txt`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { html } from 'ghtml'
import { type Static, Type } from 'typebox'
import { canSee } from '../access/visibility.ts'
import { issueWires } from '../api/issues/issues.ts'
import { accountNamed } from '../api/users/users.ts'
import { signedIn } from '../auth/requester.ts'
import { basePath } from '../http/requests/base-path.ts'
import { OptionalText } from '../http/requests/optional-text.ts'
import { PageQuery } from '../http/requests/paging.ts'
import type { RepositoryDocument } from '../projections/models/repositories/repositories.fold.ts'
import { notFoundIn } from '../projections/views/view.ts'
import { documentsIn } from '../queries/paged-list.ts'
import { repositorySearch } from '../queries/repositories/repository-search.ts'
import type { Services } from '../services/services.ts'
import { pageRoute } from './browser-routes.ts'
import {
  avatar,
  badge,
  buttonLink,
  emptyState,
  factList,
  type ListRow,
  listBox,
  pagination,
  searchField,
  time,
  totalText,
} from './components.ts'
import { discussionRow, ofIssue } from './discussion-lists.ts'
import { addressWith, count } from './format.ts'
import { documentOf } from './layout.ts'
import { fixedTargetOf } from './links.ts'
import { HTML } from './pages.ts'
import { siteOf } from './repository-frame.ts'

/** Keeps robots from routes that start git, and from the pages of each moment of a history. */
const ROBOTS = `User-agent: *
Disallow: /api/
Disallow: /*/archive/
Disallow: /*/raw/
Disallow: /*?revision=
`

const ListQuery = Type.Object({ ...PageQuery, q: OptionalText('a part of the name or of a topic') })
const HomeQuery = Type.Object({
  ...ListQuery.properties,
  sign_in: Type.Optional(Type.String({ maxLength: 10, description: 'asks a browser for a password' })),
})

/** Number of the newest issues and pull requests, and of those looked at: some may be hidden from the requester. */
const RECENT = 8
const RECENT_READ = 60

function repositoryRow(base: string, repository: RepositoryDocument): ListRow {
  const { ownerLogin, name, description, openIssues, openPulls, updatedAt } = repository
  const path = `${base}/${ownerLogin}/${name}`
  return {
    title: html`<a href="${path}"><bdi>${ownerLogin}/<b>${name}</b></bdi></a> !${repository.private ? badge('Private') : ''} !${repository.archived ? badge('Archived') : ''}`,
    meta: html`!${description === '' ? '' : html`<span dir="auto">${description}</span> · `}<a class="quiet-link" href="${path}/issues">${count(openIssues, 'issue')}</a> · <a class="quiet-link" href="${path}/pulls">${count(openPulls, 'pull request')}</a>`,
    end: time(updatedAt),
  }
}

export function homeRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { views, publicUrl } = services
  const search = repositorySearch(services)

  /** The newest issues and pull requests that the requester may read. An access token may not be for issues. */
  async function recent(base: string, { requester, tokenScopes }: FastifyRequest): Promise<string> {
    if (tokenScopes !== null) return ''
    const found = await views.issues.rows({}, { sort: [['id', -1]], limit: RECENT_READ })
    const documents = (await Array.fromAsync(documentsIn(views.issues, found))).flat()
    const wires = (await issueWires(services, documents, requester)).slice(0, RECENT)
    const rows = wires.map((wire) => {
      const path = `${base}/${wire.repository.full_name}`
      const row = discussionRow(
        { base, path },
        ofIssue({ ...wire, labels: [], milestone: null, assignees: null }),
      )
      return {
        ...row,
        meta: html`<a class="quiet-link" href="${path}"><bdi>${wire.repository.full_name}</bdi></a> !${row.meta ?? ''}`,
      }
    })
    return listBox('<h2>Newest issues and pull requests</h2>', rows, emptyState('Nothing yet'))
  }

  /** A list of repositories with a search. `owner`: only those of that account. */
  async function repositoryList(
    path: string,
    base: string,
    { query, requester }: { query: Static<typeof ListQuery>; requester: FastifyRequest['requester'] },
    owner = '',
  ): Promise<string> {
    const wanted = { ...query, owner, sort: 'updated', order: 'desc' }
    const { found, page, total } = await search(wanted, requester)
    const empty =
      (query.q ?? '') === ''
        ? emptyState('There are no repositories that you may read')
        : emptyState('No repository matches', html`<a href="${path}">Show all</a>`)
    return html`<form class="filters" action="${path}" role="search">!${searchField('Search repositories', query.q ?? '')}<button>Search</button></form>
!${listBox(
      totalText(total, 'repository'),
      found.map((one) => repositoryRow(base, one)),
      empty,
    )}
!${pagination({ ...page, total }, (to) => addressWith(path, query, { page: `${to}` }))}`
  }

  return async (app) => {
    app.get('/robots.txt', { schema: { hide: true } }, async (_request, reply) =>
      reply.type('text/plain; charset=utf-8').send(ROBOTS),
    )

    app.get(
      '/',
      { config: { scope: 'repository', forPages: true }, schema: { hide: true, querystring: HomeQuery } },
      async (request, reply) => {
        const base = basePath(publicUrl())
        if (request.query.sign_in !== undefined) {
          // A browser sends the password to all paths below this one from now on.
          signedIn(request)
          return reply.header('Cache-Control', 'no-store').redirect(`${base}/`, 303)
        }
        const [repositories, activity] = await Promise.all([
          repositoryList(`${base}/`, base, request),
          recent(base, request),
        ])
        const { requester } = request
        const hello =
          requester === null
            ? html`<span class="end">!${buttonLink(`${base}/user/login`, 'Sign in', true)}</span>`
            : html`<span class="end soft">You are <bdi>${requester.login}</bdi></span>`
        reply.type(HTML).header('Cache-Control', 'private, no-store')
        return documentOf(siteOf(services, request), {
          title: 'Mergelog',
          mainClass: 'stack',
          main: html`<div class="head"><h1>Repositories</h1>!${hello}</div><div class="split wide"><div class="stack">!${repositories}</div><div class="stack">!${activity}</div></div>`,
        })
      },
    )

    app.get(
      '/:owner',
      pageRoute('repository', { params: Type.Object({ owner: Type.String() }), querystring: ListQuery }),
      async (request, reply) => {
        const site = siteOf(services, request)
        const target = fixedTargetOf(`/${request.params.owner}`)
        if (target !== undefined) return reply.redirect(site.base + target, 302)
        const account = await accountNamed(services, request.params.owner)
        if (!canSee(account, request.requester)) throw notFoundIn(views.accounts, 'user not found')
        const { login, fullName, description, location, website, kind } = account
        const path = `${site.base}/${login}`
        const list = await repositoryList(path, site.base, request, login)
        const facts = factList([
          ...(description === '' ? [] : [['About', html`<span dir="auto">${description}</span>`] as const]),
          ...(location === '' ? [] : [['Location', html`<span dir="auto">${location}</span>`] as const]),
          ...(/^https?:/.test(website)
            ? [['Website', html`<a href="${website}" rel="nofollow">${website}</a>`] as const]
            : []),
          ['JSON', html`<a href="${site.base}/api/v1/users/${login}">Account</a>`],
        ])
        reply.type(HTML).headers({ 'Cache-Control': 'private, no-store', Vary: 'Accept' })
        return documentOf(site, {
          title: login,
          crumbs: [{ text: login }],
          mainClass: 'stack',
          main: html`<div class="head">!${avatar(fullName || login, 'large')}<div><h1><bdi>${fullName || login}</bdi></h1><p class="soft"><bdi>${login}</bdi> · ${kind}</p></div></div><div class="split"><div class="stack">!${list}</div><aside aria-label="About ${login}">!${facts}</aside></div>`,
        })
      },
    )
  }
}
