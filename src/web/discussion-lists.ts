/** `/{owner}/{repo}/issues` and `…/pulls`: lists with the filters of the API. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { html } from 'ghtml'
import { type Static, Type } from 'typebox'
import { type IssueWire, issueWires } from '../api/issues/issues.ts'
import { labelScopesOf } from '../api/labels/labels.ts'
import { type PullRequestWire, pullWires } from '../api/pull-requests/pulls.ts'
import { RepositoryParams } from '../api/repositories/repositories.ts'
import { OptionalText } from '../http/requests/optional-text.ts'
import { pageOf } from '../http/requests/paging.ts'
import { namesIn } from '../http/requests/repeated-text.ts'
import { scopeKey } from '../projections/models/labels/labels.fold.ts'
import type { RepositoryDocument } from '../projections/models/repositories/repositories.fold.ts'
import { issuePage, searchedWords } from '../queries/issues/issue-pages.ts'
import { issueQueryOf, RepositoryIssuesQuery } from '../queries/issues/issues.ts'
import { LABELS_BY_NAME } from '../queries/labels/labels.ts'
import { MILESTONES_BY_DUE_DATE } from '../queries/milestones/milestones.ts'
import { documentPage, documentsIn } from '../queries/paged-list.ts'
import { PULL_SORTS, PullListQuery, pullListOf } from '../queries/pull-requests/pulls.ts'
import type { Services } from '../services/services.ts'
import { pageRoute } from './browser-routes.ts'
import {
  choiceLinks,
  emptyState,
  type ListRow,
  labelChip,
  listBox,
  pagination,
  type Shown,
  searchField,
  select,
  shownState,
  stateMark,
  time,
  totalText,
} from './components.ts'
import { addressWith, count, type Query } from './format.ts'
import { type Frame, frameOf, sendRepositoryPage } from './repository-frame.ts'

const PullPageQuery = Type.Object({
  ...PullListQuery.properties,
  q: OptionalText('words in the title, the body or the comments'),
})

/** The orders that the form offers. */
const SORT_NAMES: Readonly<Record<string, string>> = {
  oldest: 'Oldest',
  recentupdate: 'Recently updated',
  leastupdate: 'Least recently updated',
  mostcomment: 'Most commented',
  leastcomment: 'Least commented',
}

/** How many labels and milestones a form offers. */
const OFFERED = 100

/** The parts of an issue or a pull request that a row shows. */
type Discussion = Pick<
  Static<typeof IssueWire>,
  'number' | 'title' | 'user' | 'labels' | 'milestone' | 'comments' | 'created_at' | 'state' | 'assignees'
> & { merged: boolean; draft: boolean; isPull: boolean }

export const ofIssue = (issue: Static<typeof IssueWire>): Discussion => ({
  ...issue,
  isPull: issue.pull_request !== null,
  merged: issue.pull_request?.merged ?? false,
  draft: issue.pull_request?.draft ?? false,
})

const ofPull = (pull: Static<typeof PullRequestWire>): Discussion => ({ ...pull, isPull: true })

/** `path`: of the repository. */
export function discussionRow({ base, path }: { base: string; path: string }, one: Discussion): ListRow {
  const { number, title, user, labels, milestone, comments, assignees } = one
  const chips = labels.map((label) =>
    labelChip(label, addressWith(`${path}/issues`, {}, { labels: label.name })),
  )
  const people = (assignees ?? []).map(({ login }) => html`<bdi>${login}</bdi>`)
  return {
    mark: stateMark(shownState(one)),
    title: html`<a href="${path}/${one.isPull ? 'pulls' : 'issues'}/${number}" dir="auto">${title}</a> !${chips.length === 0 ? '' : `<span class="chips">${chips.join('')}</span>`}`,
    meta: html`#${number} opened on !${time(one.created_at)} by <a class="quiet-link" href="${base}/${user.login}"><bdi>${user.login}</bdi></a>!${milestone === null ? '' : html`, milestone <bdi>${milestone.title}</bdi>`}!${people.length === 0 ? '' : `, assigned to ${people.join(', ')}`}`,
    ...(comments > 0 && { end: html`<span>${count(comments, 'comment')}</span>` }),
  }
}

export function discussionLists(services: Services): FastifyPluginAsyncTypebox {
  const { views, config } = services

  /** Labels and milestones for the filters. */
  async function choicesFor(repository: RepositoryDocument) {
    const scopes = labelScopesOf(repository).map(scopeKey)
    return Promise.all([
      views.labels.find({ scopeKey: { $in: scopes } }, { sort: LABELS_BY_NAME, limit: OFFERED }),
      views.milestones.find({ repoId: repository.id }, { sort: MILESTONES_BY_DUE_DATE, limit: OFFERED }),
    ])
  }

  interface List {
    kind: 'issues' | 'pulls'
    query: Query & { state?: string; q?: string }
    shown: Shown
    rows: readonly Discussion[]
    /** Markup of the fields besides the search. */
    fields: string
  }

  function content(frame: Frame, { kind, query, shown, rows, fields }: List): string {
    const { repository, path, site } = frame
    const own = `${path}/${kind}`
    const current = query.state === 'closed' || query.state === 'all' ? query.state : 'open'
    const state = (text: string, value: string, number?: number) => ({
      href: addressWith(own, query, { state: value, page: '' }),
      text,
      isCurrent: current === value,
      ...(number !== undefined && { count: number }),
    })
    const isPulls = kind === 'pulls'
    const states = choiceLinks('State', [
      state('Open', 'open', isPulls ? repository.openPulls : repository.openIssues),
      state('Closed', 'closed', isPulls ? repository.closedPulls : repository.closedIssues),
      state('All', 'all'),
    ])
    const word = isPulls ? 'pull request' : 'issue'
    const title = isPulls ? 'Pull requests' : 'Issues'
    const isFiltered = Object.entries(query).some(
      ([name, value]) => !['state', 'page', 'limit'].includes(name) && (value?.length ?? 0) > 0,
    )
    const empty = isFiltered
      ? emptyState(`No ${word} matches`, html`<a href="${own}">Show all open ones</a>`)
      : emptyState(`There are no ${current === 'all' ? '' : `${current} `}${word}s`)
    return html`<div class="head"><h1>${title}</h1><span class="end choices"><a href="${path}/labels">Labels</a><a href="${path}/milestones">Milestones</a></span></div>
<form class="filters" action="${own}" role="search">!${searchField('Search', query.q ?? '')}!${fields}<input type="hidden" name="state" value="${current}"><button>Filter</button></form>
!${listBox(
      html`!${states}<span class="end">!${totalText(shown.total, word)}</span>`,
      rows.map((one) => discussionRow({ base: site.base, path }, one)),
      empty,
    )}
!${pagination(shown, (to) => addressWith(own, query, { page: `${to}` }))}`
  }

  return async (app) => {
    app.get(
      '/:owner/:repo/issues',
      pageRoute('issue', { params: RepositoryParams, querystring: RepositoryIssuesQuery }),
      async (request, reply) => {
        const frame = await frameOf(services, request)
        const { query, requester } = request
        const { repository } = frame
        const page = pageOf(query, config)
        const selected = await issueQueryOf(services, repository, { ...query, type: 'issues' })
        const [{ rows, total }, [labels, milestones]] = await Promise.all([
          issuePage(services, [repository.id], selected, page),
          choicesFor(repository),
        ])
        const found = (await Array.fromAsync(documentsIn(views.issues, rows))).flat()
        const wires = await issueWires(services, found, requester)
        const [label = ''] = namesIn(query.labels)
        const [milestone = ''] = namesIn(query.milestones)
        const fields = [
          select('Label', 'labels', [['', 'Any'], ...labels.map(({ name }) => [name, name] as const)], label),
          select(
            'Milestone',
            'milestones',
            [['', 'Any'], ...milestones.map(({ id, title }) => [`${id}`, title] as const)],
            milestone,
          ),
        ]
        const shown = { ...page, total }
        const list = {
          kind: 'issues',
          query,
          shown,
          rows: wires.map(ofIssue),
          fields: fields.join(''),
        } as const
        return sendRepositoryPage(reply, frame, 'issues', { title: 'Issues', main: content(frame, list) })
      },
    )

    app.get(
      '/:owner/:repo/pulls',
      pageRoute('repository', { params: RepositoryParams, querystring: PullPageQuery }),
      async (request, reply) => {
        const frame = await frameOf(services, request)
        const { query, requester } = request
        const { repository } = frame
        const list = await pullListOf(services, repository, query)
        const words = searchedWords(query.q)
        const [{ rows, page, total }, [labels, milestones]] = await Promise.all([
          words === undefined ? inOrder() : matching(words),
          choicesFor(repository),
        ])

        async function inOrder() {
          const { documents, ...shown } = await documentPage(services, query, list)
          return { ...shown, rows: (await pullWires(services, repository, documents, requester)).map(ofPull) }
        }

        // Keywords are indexed for issues and pull requests together. The newest come first.
        async function matching(words: readonly string[]) {
          const page = pageOf(query, config)
          const { state, milestoneId, labelIds, posterId } = list.filter
          const filter = {
            isPull: true,
            ...(state !== undefined && { state }),
            ...(milestoneId !== undefined && { milestoneId }),
            ...(labelIds !== undefined && { labelIds }),
            ...(posterId !== undefined && { posterId }),
          }
          const { rows, total } = await issuePage(services, [repository.id], { filter, words }, page)
          const found = (await Array.fromAsync(documentsIn(views.issues, rows))).flat()
          return { page, total, rows: (await issueWires(services, found, requester)).map(ofIssue) }
        }

        const sorts = PULL_SORTS.filter((sort) => Object.hasOwn(SORT_NAMES, sort))
        const fields = [
          select(
            'Label',
            'labels',
            [['', 'Any'], ...labels.map(({ id, name }) => [`${id}`, name] as const)],
            [query.labels ?? ''].flat()[0] ?? '',
          ),
          select(
            'Milestone',
            'milestone',
            [['', 'Any'], ...milestones.map(({ id, title }) => [`${id}`, title] as const)],
            query.milestone ?? '',
          ),
          select(
            'Order',
            'sort',
            [['', 'Newest'], ...sorts.map((sort) => [sort, SORT_NAMES[sort] ?? sort] as const)],
            query.sort ?? '',
          ),
        ]
        const shown = { ...page, total }
        return sendRepositoryPage(reply, frame, 'pulls', {
          title: 'Pull requests',
          main: content(frame, { kind: 'pulls', query, shown, rows, fields: fields.join('') }),
        })
      },
    )
  }
}
