/**
 * The pages of a repository's code: `/{owner}/{repo}`, `…/src/…`, `…/commits/…`, `…/commit/{sha}`, `…/branches`,
 * `…/tags`.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { html } from 'ghtml'
import { type Static, Type } from 'typebox'
import { branchWire } from '../api/branches/branches.ts'
import { RepositoryParams } from '../api/repositories/repositories.ts'
import { tagWires } from '../api/tags/tags.ts'
import { usersByEmail } from '../api/users/users.ts'
import { clientOf } from '../auth/requester.ts'
import { Refused, refuse } from '../errors/refusal.ts'
import type { NamedCommit } from '../git/commits/named-commit.ts'
import { pathInUrl } from '../git/objects/byte-names.ts'
import { basePath } from '../http/requests/base-path.ts'
import { disconnectSignal } from '../http/requests/client-disconnect.ts'
import { OptionalText } from '../http/requests/optional-text.ts'
import { PageQuery, pageOf } from '../http/requests/paging.ts'
import { type BranchDocument, branchId } from '../projections/models/branches/branches.fold.ts'
import { askGit, commitWires } from '../queries/contents/commit-answers.ts'
import { commitPage, commitPathIn, namedCommit, oneCommit } from '../queries/contents/commits.ts'
import { servedAt } from '../queries/contents/file-downloads.ts'
import { documentPage } from '../queries/paged-list.ts'
import { NEWEST_TAGS } from '../queries/tags/tags.ts'
import { gitDirOf, type Services } from '../services/services.ts'
import { pageRoute } from './browser-routes.ts'
import { authorLink, commitLine, commitLink, commitRow, type ShownCommit, subjectOf } from './commit-line.ts'
import {
  avatar,
  badge,
  box,
  codeBlock,
  emptyState,
  factList,
  listBox,
  notice,
  pagination,
  time,
  totalText,
} from './components.ts'
import { renderedDiff } from './diff.ts'
import { addressWith, count, shortId } from './format.ts'
import { fixedTargetOf } from './links.ts'
import { type Frame, frameOf, sendRepositoryPage } from './repository-frame.ts'
import { addressAt, pathLinks, type SourcePlace, sourceAt } from './source.ts'

const KINDS = ['branch', 'tag', 'commit'] as const

const Paged = Type.Object(PageQuery)
const RefParams = Type.Object({ ...RepositoryParams.properties, kind: Type.String(), '*': Type.String() })
const SourceQuery = Type.Object({
  ...PageQuery,
  display: OptionalText('source: a file of Markdown as it is'),
})

/** How many branches and tags the selector offers; the others are on their own pages. */
const OFFERED = 12

export function codePages(services: Services): FastifyPluginAsyncTypebox {
  const { views, config, gitLimits } = services
  /** Links to branches and tags, without a script. */
  async function refSelector(frame: Frame, current: NamedCommit, withCounts = false): Promise<string> {
    const filter = { repoId: frame.repository.id }
    const [branches, tags, branchCount, tagCount] = await Promise.all([
      views.branches.find(filter, { sort: [['name', 1]], limit: OFFERED }),
      views.tags.find(filter, { sort: NEWEST_TAGS, limit: OFFERED }),
      views.branches.count(filter),
      views.tags.count(filter),
    ])
    const group = (kind: 'branch' | 'tag', names: readonly { name: string }[], all: string) => {
      const links = names.map(
        ({ name }) =>
          html`<li><a href="${addressAt({ frame, commit: { kind, name, sha: '' } }, 'src')}"><bdi>${name}</bdi></a></li>`,
      )
      return html`<div><ul class="plain-list">!${links}</ul><p>!${all}</p></div>`
    }
    const allBranches = html`<a href="${frame.path}/branches">${count(branchCount, 'branch')}</a>`
    const allTags = html`<a href="${frame.path}/tags">${count(tagCount, 'tag')}</a>`
    const name = current.kind === 'commit' ? shortId(current.sha) : current.name
    return html`<details class="refs"><summary>${current.kind} <bdi><b>${name}</b></bdi></summary><div>!${group('branch', branches, allBranches)}!${group('tag', tags, allTags)}</div></details>!${withCounts ? `<span class="choices">${allBranches}${allTags}</span>` : ''}`
  }

  async function shownCommitOf({ commit }: BranchDocument): Promise<ShownCommit> {
    const { sha, message, author, committer } = commit
    const account = (await usersByEmail(services, [author.email])).get(author.email)
    return { sha, message, author: author.name, login: account?.login ?? null, date: committer.date }
  }

  /** The commit and the path in an address. @throws Refused (not found) */
  async function placeAt(
    request: FastifyRequest<{ Params: Static<typeof RefParams> }>,
    reply: FastifyReply,
    frame: Frame,
  ): Promise<SourcePlace> {
    const { kind: named, '*': text } = request.params
    const kind = KINDS.find((known) => known === named)
    const found = kind && (await servedAt(services, { request, reply }, frame.repository, text, kind))
    if (found === undefined) throw new Refused(refuse.notFound('there is no such branch, tag or commit'))
    return { frame, ...found }
  }

  /** The page of an empty repository. */
  function emptyRepository({ repository, fullName }: Frame): string {
    const address = `${services.publicUrl()}/${fullName}.git`
    return box(
      '<h2>This repository is empty</h2>',
      html`<div class="stack"><p>Push a first branch to it:</p>!${codeBlock(`git remote add origin ${address}\ngit push -u origin ${repository.defaultBranch}`)}</div>`,
    )
  }

  function about(frame: Frame): string {
    const { site, repository } = frame
    const { description, website, topics, parentId, parent } = repository
    const topicChips = topics.map((topic) => html`<span class="chip"><bdi>${topic}</bdi></span>`)
    return factList([
      ['Clone', html`<code>${services.publicUrl()}/${frame.fullName}.git</code>`],
      ['About', description === '' ? '' : html`<span dir="auto">${description}</span>`],
      ...(/^https?:/.test(website)
        ? [['Website', html`<a href="${website}" rel="nofollow">${website}</a>`] as const]
        : []),
      ...(topics.length > 0 ? [['Topics', html`<span class="chips">!${topicChips}</span>`] as const] : []),
      ...(parentId !== null && parent !== null ? [['A fork', 'of another repository'] as const] : []),
      [
        'Work',
        html`<a href="${frame.path}/labels">Labels</a>, <a href="${frame.path}/milestones">milestones</a>`,
      ],
      [
        'JSON',
        html`<a href="${site.base}/api/v1/repos/${frame.fullName}">Repository</a>, <a href="${site.base}/api/v1/repos/${frame.fullName}/history">history</a>`,
      ],
    ])
  }

  const heading = ({ repository }: Frame) =>
    html`<div class="head"><h1><bdi>${repository.name}</bdi></h1>!${repository.private ? badge('Private') : ''}!${repository.archived ? badge('Archived') : ''}!${repository.template ? badge('Template') : ''}</div>`

  async function home(request: FastifyRequest, reply: FastifyReply, frame: Frame): Promise<string> {
    const { repository } = frame
    const branch = await views.branches.get(branchId(repository.id, repository.defaultBranch))
    if (branch === undefined) return emptyRepository(frame)
    const commit = { kind: 'branch', name: branch.name, sha: branch.commit.sha } as const
    const [selector, latest] = await Promise.all([refSelector(frame, commit, true), shownCommitOf(branch)])
    const asked = { services, request, reply, page: 1, asSource: false }
    const source = await sourceAt(asked, { frame, commit, path: '' }, commitLine(frame, latest))
    return html`<div class="head">!${selector}</div>!${source}`
  }

  return async (app) => {
    app.get(
      '/:owner/:repo',
      pageRoute('repository', { params: RepositoryParams }),
      async (request, reply) => {
        const { owner, repo } = request.params
        const target = fixedTargetOf(`/${owner}/${repo}`)
        if (target !== undefined) return reply.redirect(basePath(services.publicUrl()) + target, 302)
        if (repo.endsWith('.git')) {
          // From the names, because a browser takes a path that begins with two slashes for another host.
          if (owner === '') throw new Refused(refuse.notFound('repository not found'))
          const place = [owner, repo.slice(0, -'.git'.length)].map(encodeURIComponent).join('/')
          return reply.redirect(`${basePath(services.publicUrl())}/${place}`, 302)
        }
        const frame = await frameOf(services, request)
        const content = await home(request, reply, frame)
        return sendRepositoryPage(reply, frame, 'code', {
          title: '',
          main: html`!${heading(frame)}<div class="split"><div class="stack">!${content}</div><aside aria-label="About ${owner}/${repo}">!${about(frame)}</aside></div>`,
        })
      },
    )

    app.get(
      '/:owner/:repo/src/:kind/*',
      pageRoute('repository', { params: RefParams, querystring: SourceQuery }),
      async (request, reply) => {
        const frame = await frameOf(services, request)
        const place = await placeAt(request, reply, frame)
        const { page } = pageOf(request.query, config)
        const asSource = request.query.display === 'source'
        const [selector, source] = await Promise.all([
          refSelector(frame, place.commit),
          sourceAt({ services, request, reply, page, asSource }, place),
        ])
        const name = place.path.split('/').at(-1) || place.commit.name
        return sendRepositoryPage(reply, frame, 'code', {
          title: name,
          main: html`<h1 class="aside"><bdi>${name}</bdi></h1><div class="head">!${selector}!${pathLinks(place)}<span class="end choices"><a href="${addressAt(place, 'commits')}">Commits</a></span></div>!${source}`,
        })
      },
    )

    app.get(
      '/:owner/:repo/commits/:kind/*',
      pageRoute('repository', { params: RefParams, querystring: Paged }),
      async (request, reply) => {
        const frame = await frameOf(services, request)
        const place = await placeAt(request, reply, frame)
        const page = pageOf(request.query, config)
        const flags = { stat: false, verification: false, files: false }
        const path = commitPathIn(place.path)
        const selection = { tip: place.commit.sha, ...(path !== undefined && { path }) }
        const caller = { request, reply }
        const { total, found } = await commitPage(services, caller, frame.repository, selection, page, flags)
        const wires = await commitWires(services, frame.repository, reply, found, flags)
        const rows = wires.map(({ sha, commit, author }) =>
          commitRow(frame, {
            sha,
            message: commit.message,
            author: commit.author.name,
            login: author?.login ?? null,
            date: commit.committer.date,
          }),
        )
        const address = addressAt(place, 'commits', place.path)
        return sendRepositoryPage(reply, frame, 'commits', {
          title: `Commits of ${place.commit.name}`,
          main: html`<h1>Commits</h1><div class="head">!${await refSelector(frame, place.commit)}!${pathLinks(place)}</div>!${listBox(totalText(total, 'commit'), rows, emptyState('No commit has this path'))}!${pagination({ ...page, total }, (to) => addressWith(address, request.query, { page: `${to}` }))}`,
        })
      },
    )

    app.get(
      '/:owner/:repo/commit/:sha',
      pageRoute('repository', {
        params: Type.Object({ ...RepositoryParams.properties, sha: Type.String() }),
      }),
      async (request, reply) => {
        const frame = await frameOf(services, request)
        const { repository, path, site, fullName } = frame
        const name = request.params.sha
        if (/\.(?:diff|patch)$/.test(name)) {
          return reply.redirect(`${site.base}/api/v1/repos/${fullName}/git/commits/${pathInUrl(name)}`, 302)
        }
        const caller = { request, reply }
        const sha = await namedCommit(services, caller, repository, name)
        const flags = { stat: true, verification: true, files: false }
        const { commit, author, parents, stats } = await oneCommit(services, caller, repository, sha, flags)
        const dir = gitDirOf(services, repository.id)
        const share = gitLimits.diffs.shareOf(clientOf(request))
        const diff = await askGit(request, sha, () =>
          renderedDiff(dir, parents[0]?.sha ?? null, sha, share, disconnectSignal(reply)),
        )
        const [, ...rest] = commit.message.split('\n')
        const who = { author: commit.author.name, login: author?.login ?? null }
        const facts = [
          html`<b>!${authorLink(frame, who)}</b> committed on !${time(commit.committer.date)}`,
          html`${parents.length === 1 ? 'parent' : 'parents'} !${parents.map((parent) => commitLink(frame, parent.sha)).join(' ') || 'none'}`,
          html`<span class="plus">+${stats?.additions ?? 0}</span> <span class="minus">−${stats?.deletions ?? 0}</span>`,
          html`<code>${sha}</code>`,
        ]
        const body = rest.join('\n').trim()
        const ways = html`<a href="${path}/src/commit/${sha}">Files</a><a href="${path}/commit/${sha}.diff">Diff</a><a href="${path}/commit/${sha}.patch">Patch</a>`
        return sendRepositoryPage(reply, frame, 'commits', {
          title: subjectOf(commit.message),
          crumbs: [{ text: shortId(sha) }],
          main: html`<h1 dir="auto">${subjectOf(commit.message)}</h1>!${body === '' ? '' : html`<p class="prose" dir="auto">${body}</p>`}<div class="head">!${avatar(who.author)}<span class="lead">!${facts.join(' · ')}</span>!${commit.verification?.verified ? badge('Verified') : ''}<span class="end choices">!${ways}</span></div><section aria-labelledby="changes"><h2 id="changes" class="aside">Changes</h2>!${diff.markup || emptyState('No file changed')}!${diff.cut ? notice('info', html`This is only the beginning of a large diff. <a href="${path}/commit/${sha}.diff">Show all of it as text</a>`) : ''}</section>`,
        })
      },
    )

    app.get(
      '/:owner/:repo/branches',
      pageRoute('repository', { params: RepositoryParams, querystring: Paged }),
      async (request, reply) => {
        const frame = await frameOf(services, request)
        const { repository, access, path } = frame
        const list = { view: views.branches, filter: { repoId: repository.id }, sort: [['name', 1]] } as const
        const { documents, page, total } = await documentPage(services, request.query, list)
        const viewer = { requester: request.requester, access }
        const rows = documents.map((branch) => {
          const {
            name,
            commit,
            protected: isProtected,
          } = branchWire(branch, repository, viewer, services.publicUrl())
          const place = { frame, commit: { kind: 'branch', name, sha: commit.id } } as const
          return {
            title: html`<a href="${addressAt(place, 'src')}"><bdi>${name}</bdi></a> !${name === repository.defaultBranch ? badge('Default') : ''} !${isProtected ? badge('Protected') : ''}`,
            meta: html`!${commitLink(frame, commit.id)} <span dir="auto">${subjectOf(commit.message)}</span>`,
            end: html`!${time(commit.timestamp)}<br><a href="${addressAt(place, 'commits')}">Commits</a>`,
          }
        })
        return sendRepositoryPage(reply, frame, 'code', {
          title: 'Branches',
          main: html`<h1>Branches</h1>!${listBox(totalText(total, 'branch'), rows, emptyState('There are no branches yet'))}!${pagination({ ...page, total }, (to) => addressWith(`${path}/branches`, request.query, { page: `${to}` }))}`,
        })
      },
    )

    app.get(
      '/:owner/:repo/tags',
      pageRoute('repository', { params: RepositoryParams, querystring: Paged }),
      async (request, reply) => {
        const frame = await frameOf(services, request)
        const { repository, path } = frame
        const list = { view: views.tags, filter: { repoId: repository.id }, sort: NEWEST_TAGS }
        const { documents, page, total } = await documentPage(services, request.query, list)
        const rows = (await tagWires(services, repository, documents)).map((tag) => {
          const place = { frame, commit: { kind: 'tag', name: tag.name, sha: tag.commit.sha } } as const
          return {
            title: html`<a href="${addressAt(place, 'src')}"><bdi>${tag.name}</bdi></a>`,
            meta: html`!${commitLink(frame, tag.commit.sha)} <span dir="auto">${subjectOf(tag.message)}</span>`,
            end: html`!${time(tag.commit.created)}<br><a href="${tag.zipball_url}">ZIP</a> <a href="${tag.tarball_url}">TAR.GZ</a>`,
          }
        })
        return sendRepositoryPage(reply, frame, 'code', {
          title: 'Tags',
          main: html`<h1>Tags</h1>!${listBox(totalText(total, 'tag'), rows, emptyState('There are no tags yet'))}!${pagination({ ...page, total }, (to) => addressWith(`${path}/tags`, request.query, { page: `${to}` }))}`,
        })
      },
    )
  }
}
