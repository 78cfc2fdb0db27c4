/** The page of a merge's evidence, to read and to print: `evidence.6`. Pure. */
import { html } from 'ghtml'
import type { Static } from 'typebox'
import type { EvidenceWire } from '../api/pull-requests/evidence.ts'
import { badge, box, buttonLink, codeBlock, factList, type ListRow, listBox, notice } from './components.ts'
import { count, instant, person, shortId } from './format.ts'
import type { DocumentParts } from './layout.ts'
import type { Frame } from './repository-frame.ts'

type Evidence = Static<typeof EvidenceWire>

const NOT_RECORDED = '<span class="none">not recorded</span>'
const HIDDEN = '<span class="none">for admins of the repository</span>'

/** How a user got a permission. */
const GRANTS: Readonly<Record<NonNullable<Evidence['merge']['through']>, string>> = {
  'site-admin': 'a site admin',
  owner: 'the owner of the repository',
  organization: 'a member of the organization',
  collaborator: 'a collaborator',
  team: 'a member of a team',
  public: 'any user',
}

const yesNo = (flag: boolean | null) => (flag === null ? NOT_RECORDED : flag ? 'yes' : 'no')

/** The event that a fact is from. */
const eventNote = ({ stream, revision, hash }: Evidence['opened']) =>
  html`<span class="soft">event ${revision} of <code>${stream}</code>, hash <code>${hash ?? 'none'}</code></span>`

const list = (texts: readonly string[]) =>
  texts.length === 0 ? 'nothing' : html`<ul>!${texts.map((text) => html`<li><bdi>${text}</bdi></li>`)}</ul>`

/** Returns the parts of the page of a pull request's evidence. */
export function evidencePage(frame: Frame, title: string, evidence: Evidence): DocumentParts {
  const { site, fullName } = frame
  const { number, merge } = evidence
  const pull = `${site.base}/ui/${fullName}/pulls/${number}`
  const api = `${site.base}/api/v1/repos/${fullName}/pulls/${number}/evidence`
  const who = (user: Evidence['opened_by'] | null) =>
    user === null ? 'Mergelog' : person({ site: site.base }, user.login)
  const commit = (sha: string) => html`<a href="${frame.path}/commit/${sha}"><code>${shortId(sha)}</code></a>`
  const isAdmin = evidence.hidden.length === 0
  const orHidden = (text: string | null) => text ?? (isAdmin ? NOT_RECORDED : HIDDEN)
  const context = { who, commit, orHidden }
  const head = html`<h1>Why could this be merged?</h1>
<p class="lead"><a href="${pull}"><bdi>${title}</bdi> #${number}</a>: opened by !${who(evidence.opened_by)}, merged by !${who(merge.by)} on !${instant(merge.at)}</p>
<p class="head">!${buttonLink(api, 'JSON')}!${isAdmin ? buttonLink(`${api}?format=document`, 'Document to keep') : ''}</p>`
  const missing = evidence.not_recorded
  const note =
    missing.length === 0
      ? ''
      : notice('info', html`The log does not have these facts: ${missing.join(', ')}.`)
  return {
    title: `Evidence of #${number}`,
    crumbs: [{ text: `#${number}`, href: pull }, { text: 'Evidence' }],
    main: [
      head,
      note,
      section('Merge', factList(mergeFacts(evidence, context))),
      section('Protection of the base branch', protection(evidence, context)),
      checks(evidence, context),
      reviews(evidence, context),
      commits(evidence, context),
    ].join('\n'),
  }
}

interface Context {
  who: (user: Evidence['opened_by'] | null) => string
  commit: (sha: string) => string
  /** Returns the text; for null, why it is not there. */
  orHidden: (text: string | null) => string
}

const section = (name: string, content: string) => box(html`<h2>${name}</h2>`, content)

function mergeFacts(
  { merge, head_commit, four_eyes, last_pusher, schedule }: Evidence,
  { who, commit, orHidden }: Context,
): [name: string, value: string][] {
  const { access, through, credential, move, base_commit } = merge
  const permission = access === null || through === null ? null : html`${access}, as ${GRANTS[through]}`
  return [
    [
      'Merged by',
      html`!${who(merge.by)}!${merge.sudo === null ? '' : html` (by !${who(merge.sudo)}, with Sudo)`}<br>!${eventNote(merge.event)}`,
    ],
    ['Permission', orHidden(permission)],
    ['Credential', orHidden(credential)],
    ['Four eyes', yesNo(four_eyes)],
    ['Last pusher', last_pusher === null ? NOT_RECORDED : who(last_pusher)],
    ['Override by an admin', yesNo(merge.forced)],
    ['Bypassed', merge.bypassed === null ? NOT_RECORDED : list(merge.bypassed)],
    ['Style', html`${merge.style}`],
    ['Head', commit(head_commit)],
    [
      'Result',
      html`!${commit(merge.commit)}!${base_commit === null ? '' : html`, base before: !${commit(base_commit)}`}`,
    ],
    ['Decided by', eventNote(merge.decided)],
    [
      'Base branch moved',
      move === null
        ? NOT_RECORDED
        : html`!${who(move.by)}, ${move.cause}, on !${instant(move.at)}<br>!${eventNote(move.event)}`,
    ],
    [
      'Schedule',
      schedule === null
        ? ''
        : html`!${who(schedule.by)} on !${instant(schedule.at)}!${schedule.waits_for.length === 0 ? '' : html`, waiting for ${schedule.waits_for.join(', ')}`}!${schedule.expected_head === null ? '' : html`, only for !${commit(schedule.expected_head)}`}<br>!${eventNote(schedule.event)}`,
    ],
  ]
}

function protection(
  { protection: found, required_approvals, checks: { required, contexts }, not_recorded }: Evidence,
  { who, orHidden }: Context,
) {
  if (found === null && not_recorded.includes('protection')) return `<p>${NOT_RECORDED}</p>`
  if (found === null) return '<p class="none">The base branch was not protected.</p>'
  const { rule, settings, changed_at, changed_by, event } = found
  const changed =
    changed_at === null
      ? null
      : html`!${who(changed_by)} on !${instant(changed_at)}!${event === null ? '' : html`<br>!${eventNote(event)}`}`
  const facts = factList([
    ['Rule', html`<bdi>${rule}</bdi>`],
    ['Last changed', orHidden(changed)],
    ['Required approvals', `${required_approvals}`],
    ['Required checks', required ? html`<bdi>${contexts.join(', ') || 'all'}</bdi>` : ''],
  ])
  return settings === null ? facts : `${facts}${codeBlock(JSON.stringify(settings, undefined, 2))}`
}

const boxOf = (name: string, rows: readonly ListRow[], total = rows.length) =>
  listBox(html`<h2>${name}</h2><span>${count(total, 'entry')}</span>`, rows, '<p class="empty">none</p>')

const checks = ({ checks: { statuses } }: Evidence, { who }: Context) =>
  boxOf(
    'Checks of the head',
    statuses.map(({ context, state, required, by, at, event }) => ({
      title: html`<bdi>${context}</bdi>: ${state} !${required ? badge('Required') : ''}`,
      meta: html`!${who(by)} on !${instant(at)}<br>!${eventNote(event)}`,
    })),
  )

const reviews = ({ reviews: found }: Evidence, { who, commit }: Context) =>
  boxOf(
    'Approvals and rejections',
    found.map(
      ({
        by,
        verdict,
        commit: seen,
        at,
        official,
        stale,
        dismissed,
        dismissed_by,
        dismissed_at,
        counted,
        event,
      }) => {
        const marks = [
          ...(official ? [] : ['Not official']),
          ...(stale ? ['Of an earlier state'] : []),
          ...(dismissed ? ['Dismissed'] : []),
          ...(counted ? ['Counted'] : []),
        ]
        const dismissal =
          dismissed_at === null
            ? ''
            : html`; dismissed!${dismissed_by === null ? '' : html` by !${who(dismissed_by)}`} on !${instant(dismissed_at)}`
        return {
          title: html`!${who(by)} ${verdict} !${commit(seen)} !${marks.map(badge)}`,
          meta: html`!${instant(at)}!${dismissal}<br>!${eventNote(event)}`,
        }
      },
    ),
  )

function commits({ commits: found }: Evidence, { commit }: Context) {
  if (found === null) return section('Commits', '<p class="none">git no longer has them.</p>')
  const rows = found.list.map(({ sha, author, subject, signed, verified }) => ({
    title: html`!${commit(sha)} <bdi>${subject}</bdi> !${badge(verified ? 'Verified' : signed ? 'Signed, not verified' : 'Not signed')}`,
    meta: html`<bdi>${author}</bdi>`,
  }))
  return boxOf('Merged commits', rows, found.total)
}
