/** `/{owner}/{repo}/labels`, `…/milestones`, `…/releases` and `…/releases/tag/{tag}`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { html } from 'ghtml'
import { type Static, Type } from 'typebox'
import { labelScopesOf } from '../api/labels/labels.ts'
import { milestoneWire } from '../api/milestones/milestones.ts'
import {
  ReleaseTagParams,
  type ReleaseWire,
  releaseOfTag,
  releaseWire,
  releaseWires,
} from '../api/releases/releases.ts'
import { RepositoryParams } from '../api/repositories/repositories.ts'
import { clientOf } from '../auth/requester.ts'
import { pathInUrl } from '../git/objects/byte-names.ts'
import { OptionalText } from '../http/requests/optional-text.ts'
import { PageQuery } from '../http/requests/paging.ts'
import { scopeKey } from '../projections/models/labels/labels.fold.ts'
import { LABELS_BY_NAME } from '../queries/labels/labels.ts'
import { MILESTONES_BY_DUE_DATE, milestoneFilterOf } from '../queries/milestones/milestones.ts'
import { documentPage } from '../queries/paged-list.ts'
import { NEWEST_RELEASES, releaseFilterOf } from '../queries/releases/releases.ts'
import type { Services } from '../services/services.ts'
import { pageRoute } from './browser-routes.ts'
import {
  badge,
  choiceLinks,
  emptyState,
  labelChip,
  listBox,
  pagination,
  stateMark,
  time,
  totalText,
} from './components.ts'
import { addressWith, bytesText, day } from './format.ts'
import { type Frame, frameOf, sendRepositoryPage } from './repository-frame.ts'
import { type ShowText, showTexts } from './shown-texts.ts'

/** Maximum length of a shown text, in characters. */
const TEXT_CHARACTERS = 20_000

const Paged = Type.Object(PageQuery)
const MilestoneQuery = Type.Object({ ...PageQuery, state: OptionalText('open (default), closed or all') })

export function planningPages(services: Services): FastifyPluginAsyncTypebox {
  const { views } = services

  const textsFor = (request: FastifyRequest, { fullName }: Frame): ShowText =>
    showTexts(clientOf(request), { site: services.publicUrl(), repository: fullName })

  async function releaseBox(frame: Frame, release: Static<typeof ReleaseWire>, show: ShowText, level: 1 | 2) {
    const {
      tag_name: tag,
      name,
      draft,
      prerelease,
      author,
      published_at: at,
      created_at: made,
      assets,
    } = release
    const title = html`<a class="quiet-link" href="${frame.path}/releases/tag/${pathInUrl(tag)}" dir="auto">${name || tag}</a>`
    const files = [
      ...assets.map(
        (asset) =>
          html`<li><a href="${asset.browser_download_url}"><bdi>${asset.name}</bdi></a> <span class="soft">${bytesText(asset.size)}</span></li>`,
      ),
      ...(draft
        ? []
        : [
            html`<li><a href="${release.zipball_url}">Source code (zip)</a></li><li><a href="${release.tarball_url}">Source code (tar.gz)</a></li>`,
          ]),
    ]
    const source = draft
      ? html`<bdi>${tag}</bdi>`
      : html`<a href="${frame.path}/src/tag/${pathInUrl(tag)}"><bdi>${tag}</bdi></a>`
    return html`<section class="box"><div class="box-head">!${level === 1 ? `<h1>${title}</h1>` : `<h2>${title}</h2>`}!${draft ? badge('Draft') : ''}!${prerelease ? badge('Prerelease') : ''}<span class="end">!${source} · !${time(at ?? made)}!${author === null ? '' : html` · <a class="quiet-link" href="${frame.site.base}/${author.login}"><bdi>${author.login}</bdi></a>`}</span></div><div class="box-body stack">!${await show(release.body, TEXT_CHARACTERS)}<ul class="plain-list">!${files}</ul></div></section>`
  }

  return async (app) => {
    app.get(
      '/:owner/:repo/labels',
      pageRoute('issue', { params: RepositoryParams, querystring: Paged }),
      async (request, reply) => {
        const frame = await frameOf(services, request)
        const { repository, path } = frame
        const filter = { scopeKey: { $in: labelScopesOf(repository).map(scopeKey) } }
        const list = { view: views.labels, filter, sort: LABELS_BY_NAME }
        const { documents, page, total } = await documentPage(services, request.query, list)
        const rows = documents.map((label) => ({
          title: html`!${labelChip(label, addressWith(`${path}/issues`, {}, { labels: label.name }))} !${label.archived ? badge('Archived') : ''}!${label.scope.kind === 'organization' ? badge('Of the organization') : ''}`,
          meta: html`<span dir="auto">${label.description}</span>`,
          end: html`<a href="${addressWith(`${path}/pulls`, {}, { labels: `${label.id}` })}">Pull requests</a>`,
        }))
        return sendRepositoryPage(reply, frame, 'issues', {
          title: 'Labels',
          main: html`<h1>Labels</h1>!${listBox(totalText(total, 'label'), rows, emptyState('There are no labels yet'))}!${pagination({ ...page, total }, (to) => addressWith(`${path}/labels`, request.query, { page: `${to}` }))}`,
        })
      },
    )

    app.get(
      '/:owner/:repo/milestones',
      pageRoute('issue', { params: RepositoryParams, querystring: MilestoneQuery }),
      async (request, reply) => {
        const frame = await frameOf(services, request)
        const { path, repository } = frame
        const { query } = request
        const filter = milestoneFilterOf(repository.id, query)
        const list = { view: views.milestones, filter, sort: MILESTONES_BY_DUE_DATE }
        const { documents, page, total } = await documentPage(services, query, list)
        const show = textsFor(request, frame)
        const rows = []
        for (const milestone of documents.map(milestoneWire)) {
          const { id, title, state, open_issues: open, closed_issues: closed, due_on: due } = milestone
          const issues = (of: string) => addressWith(`${path}/issues`, {}, { milestones: `${id}`, state: of })
          rows.push({
            mark: stateMark(state === 'closed' ? 'closed' : 'open'),
            title: html`<a href="${issues('open')}" dir="auto">${title}</a>`,
            meta: html`${due === null ? 'No due date' : `Due on ${day(due)}`}!${await show(milestone.description, TEXT_CHARACTERS)}`,
            end: html`<a href="${issues('open')}">${open} open</a><br><a href="${issues('closed')}">${closed} closed</a>`,
          })
        }
        const current = query.state === 'closed' || query.state === 'all' ? query.state : 'open'
        const states = ['open', 'closed', 'all'].map((state) => ({
          href: addressWith(`${path}/milestones`, {}, { state }),
          text: `${state[0]?.toUpperCase()}${state.slice(1)}`,
          isCurrent: state === current,
        }))
        const head = html`!${choiceLinks('State', states)}<span class="end">!${totalText(total, 'milestone')}</span>`
        return sendRepositoryPage(reply, frame, 'issues', {
          title: 'Milestones',
          main: html`<h1>Milestones</h1>!${listBox(head, rows, emptyState('There are no such milestones'))}!${pagination({ ...page, total }, (to) => addressWith(`${path}/milestones`, query, { page: `${to}` }))}`,
        })
      },
    )

    // Its page is the list of its issues.
    app.get(
      '/:owner/:repo/milestone/:id',
      pageRoute('issue', { params: Type.Object({ ...RepositoryParams.properties, id: Type.String() }) }),
      async (request, reply) => {
        const { path } = await frameOf(services, request)
        return reply.redirect(
          addressWith(`${path}/issues`, {}, { milestones: request.params.id, state: 'all' }),
          302,
        )
      },
    )

    app.get(
      '/:owner/:repo/releases',
      pageRoute('repository', { params: RepositoryParams, querystring: Paged }),
      async (request, reply) => {
        const frame = await frameOf(services, request)
        const { path, repository, access } = frame
        const filter = releaseFilterOf(repository.id, access, {})
        const list = { view: views.releases, filter, sort: NEWEST_RELEASES }
        const { documents, page, total } = await documentPage(services, request.query, list)
        const show = textsFor(request, frame)
        const boxes: string[] = []
        for (const release of await releaseWires(services, repository, documents)) {
          boxes.push(await releaseBox(frame, release, show, 2))
        }
        return sendRepositoryPage(reply, frame, 'releases', {
          title: 'Releases',
          main: html`<div class="head"><h1>Releases</h1><span class="end choices"><a href="${path}/tags">Tags</a></span></div>!${boxes.length === 0 ? emptyState('There are no releases yet') : boxes}!${pagination({ ...page, total }, (to) => addressWith(`${path}/releases`, request.query, { page: `${to}` }))}`,
        })
      },
    )

    app.get(
      '/:owner/:repo/releases/tag/*',
      pageRoute('repository', { params: ReleaseTagParams }),
      async (request, reply) => {
        const frame = await frameOf(services, request)
        const found = await releaseOfTag(services, frame, request.params['*'])
        const release = await releaseWire(services, frame.repository, found)
        return sendRepositoryPage(reply, frame, 'releases', {
          title: release.name || release.tag_name,
          main: await releaseBox(frame, release, textsFor(request, frame), 1),
        })
      },
    )
  }
}
