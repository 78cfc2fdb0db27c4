/** `/{owner}/{repo}/issues/{index}`: the conversation of an issue, and its facts in a narrow column. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { html } from 'ghtml'
import { type Static, Type } from 'typebox'
import { IssueParams, issueFor, issueWireNow } from '../api/issues/issues.ts'
import { clientOf } from '../auth/requester.ts'
import { disconnectSignal } from '../http/requests/client-disconnect.ts'
import { PageQuery, pageOf } from '../http/requests/paging.ts'
import { timelineReader } from '../queries/issues/timeline.ts'
import { referenceRows, withReferences } from '../queries/issues/timeline-references.ts'
import { type TimelineWire, timelineWires } from '../queries/issues/timeline-wire.ts'
import type { Services } from '../services/services.ts'
import { pageRoute } from './browser-routes.ts'
import { commitLink } from './commit-line.ts'
import { avatar, badge, factList, labelChip, notice, pagination, stateBadge, time } from './components.ts'
import { addressWith, bytesText, day, person } from './format.ts'
import { type Frame, frameOf, sendRepositoryPage } from './repository-frame.ts'
import { showTexts } from './shown-texts.ts'

type Row = Static<typeof TimelineWire>

/** Number of comments and changes on one page. */
const ROWS = 100
const TEXT_CHARACTERS = 20_000

const named = (name: string) => html`<b><bdi>${name}</bdi></b>`

/** The issue of another row, as a link. */
function issueLink({ site }: Frame, issue: Row['ref_issue']): string {
  if (issue === null) return 'an issue that you may not see'
  const { full_name: fullName } = issue.repository
  const kind = issue.pull_request === null ? 'issues' : 'pulls'
  return html`<a href="${site.base}/${fullName}/${kind}/${issue.number}"><bdi>${fullName}#${issue.number}</bdi></a> <bdi>${issue.title}</bdi>`
}

/** Describes a change in the words that follow the name of the user. Empty for a row that says nothing to people. */
function changeOf(frame: Frame, row: Row): string {
  const { label, milestone, old_milestone: old, assignee, body } = row
  switch (row.type) {
    case 'close':
      return 'closed this issue'
    case 'reopen':
      return 'reopened this issue'
    case 'label':
      if (label === null) return `${body === '1' ? 'added' : 'removed'} a label that was deleted`
      return `${body === '1' ? 'added' : 'removed'} the label ${labelChip(label)}`
    case 'milestone':
      if (milestone !== null) return `set the milestone ${named(milestone.title)}`
      return old === null ? 'changed the milestone' : `removed the milestone ${named(old.title)}`
    case 'assignees': {
      if (assignee === null) return 'changed the assignees'
      const verb = row.removed_assignee ? 'unassigned' : 'assigned'
      return `${verb} ${person({ site: frame.site.base }, assignee.login)}`
    }
    case 'change_title':
      return `changed the title from ${named(row.old_title)} to ${named(row.new_title)}`
    case 'added_deadline':
      return `set the due date ${named(body)}`
    case 'modified_deadline':
      return `changed the due date to ${named(body.split('|')[0] ?? '')}`
    case 'removed_deadline':
      return 'removed the due date'
    case 'add_dependency':
      return `made it depend on ${issueLink(frame, row.dependent_issue)}`
    case 'remove_dependency':
      return `made it no longer depend on ${issueLink(frame, row.dependent_issue)}`
    case 'change_issue_ref':
      return `set the reference to ${named(row.new_ref)}`
    case 'lock':
      return html`locked the conversation${body === '' ? '' : `: ${body}`}`
    case 'unlock':
      return 'unlocked the conversation'
    case 'issue_ref':
    case 'pull_ref':
    case 'comment_ref':
      return `mentioned this issue in ${issueLink(frame, row.ref_issue)}`
    case 'commit_ref':
      return `mentioned this issue in the commit ${commitLink(frame, row.ref_commit_sha)}`
    default:
      return ''
  }
}

function changeEntry(frame: Frame, row: Row): string {
  const change = changeOf(frame, row)
  if (change === '') return ''
  const who = row.user === null ? 'Mergelog' : person({ site: frame.site.base }, row.user.login)
  return html`<li class="fact"><b>!${who}</b> !${change} on !${time(row.created_at)}</li>
`
}

/** A text with its author. `id`: where links to it lead. */
const textEntry = (login: string, id: string, head: string, text: string) =>
  html`<li>!${avatar(login)}<article class="box" id="${id}"><div class="box-head"><span>!${head}</span></div><div class="box-body">!${text || '<p class="none">No text</p>'}</div></article></li>
`

export function issuePages(services: Services): FastifyPluginAsyncTypebox {
  const rowsOf = timelineReader(services)
  return async (app) => {
    app.get(
      '/:owner/:repo/issues/:index',
      pageRoute('issue', { params: IssueParams, querystring: Type.Object(PageQuery) }),
      async (request, reply) => {
        const frame = await frameOf(services, request)
        const { repository, path, site, fullName } = frame
        const { requester } = request
        const document = await issueFor(services, repository.id, request.params.index)
        const { index } = document
        const own = `${path}/issues/${index}`
        if (document.isPull) return reply.redirect(`${path}/pulls/${index}`, 302)
        const [issue, changes, references] = await Promise.all([
          issueWireNow(services, document, requester),
          rowsOf(document, disconnectSignal(reply)),
          referenceRows(services, document, requester),
        ])
        const all = withReferences([...changes.values()], references)
        const { page } = pageOf(request.query, services.config)
        const shown = all.slice((page - 1) * ROWS, page * ROWS)
        const rows = await timelineWires(services, repository, document, shown, requester)
        const show = showTexts(clientOf(request), { site: services.publicUrl(), repository: fullName })
        const link = (login: string) => person({ site: site.base }, login)

        const entries: string[] = []
        if (page === 1) {
          const files = issue.assets.map(
            (file) =>
              html`<li><a href="${file.browser_download_url}"><bdi>${file.name}</bdi></a> <span class="soft">${bytesText(file.size)}</span></li>`,
          )
          const head = html`<b>!${link(issue.user.login)}</b> opened this issue on !${time(issue.created_at)}`
          const text = await show(issue.body, TEXT_CHARACTERS)
          entries.push(
            textEntry(
              issue.user.login,
              `issue-${issue.id}`,
              head,
              files.length === 0 ? text : `${text}<ul class="plain-list">${files.join('')}</ul>`,
            ),
          )
        }
        for (const row of rows) {
          if (row.type !== 'comment') {
            entries.push(changeEntry(frame, row))
            continue
          }
          const login = row.user?.login ?? ''
          const id = `issuecomment-${row.id}`
          const edited = row.updated_at === row.created_at ? '' : ', edited'
          const head = html`<b>!${row.user === null ? 'a deleted user' : link(login)}</b> commented on <a class="quiet-link" href="#${id}">!${time(row.created_at)}</a>${edited}`
          entries.push(textEntry(login, id, head, await show(row.body, TEXT_CHARACTERS)))
        }

        const { milestone, assignees, labels, due_date: due } = issue
        const chips = labels.map((label) =>
          labelChip(label, addressWith(`${path}/issues`, {}, { labels: label.name })),
        )
        const api = `${site.base}/api/v1/repos/${fullName}/issues/${index}`
        const facts = factList([
          ['Assignees', (assignees ?? []).map(({ login }) => link(login)).join(', ')],
          ['Labels', chips.length === 0 ? '' : `<span class="chips">${chips.join('')}</span>`],
          [
            'Milestone',
            milestone === null
              ? ''
              : html`<a href="${addressWith(`${path}/issues`, {}, { milestones: `${milestone.id}` })}"><bdi>${milestone.title}</bdi></a>`,
          ],
          ['Due date', due === null ? '' : day(due)],
          ['JSON', html`<a href="${api}">Issue</a>, <a href="${api}/timeline">timeline</a>`],
        ])
        return sendRepositoryPage(reply, frame, 'issues', {
          title: `${issue.title} · #${index}`,
          crumbs: [{ text: `#${index}` }],
          main: html`<h1><span dir="auto">${issue.title}</span> <span class="number">#${index}</span></h1>
<div class="head">!${stateBadge(issue.state === 'closed' ? 'closed' : 'open')}!${issue.is_locked ? badge('Locked') : ''}<span class="soft">opened by !${link(issue.user.login)} on !${time(issue.created_at)}</span></div>
<div class="split"><div class="stack"><ol class="log">
!${entries}</ol>!${pagination({ page, limit: ROWS, total: all.length }, (to) => `${own}?page=${to}`)}!${issue.is_locked ? notice('info', 'The conversation is locked: only writers take part in it.') : ''}</div><aside aria-label="Facts about the issue">!${facts}</aside></div>`,
        })
      },
    )
  }
}
