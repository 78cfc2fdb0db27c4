/** The pull request as it was at a moment. Marks the changes of the last event before that moment. Pure. */
import { html } from 'ghtml'
import type { Static } from 'typebox'
import type { PullRequestWire } from '../api/pull-requests/pulls.ts'
import { labelChip, shownState, stateBadge } from './components.ts'
import { commit, count, day, instant, type PageLinks, person, shortId } from './format.ts'
import type { ShowText } from './shown-texts.ts'
import { type Entry, sentence } from './timeline.ts'

type Pull = Static<typeof PullRequestWire>

/** Maximum number of shown characters of a description or comment. */
const PROSE_CHARACTERS = 20_000
const CAN_BE_MERGED = 'Can be merged'
const NONE = '<span class="none">none</span>'

export interface PullState {
  /** The last event before the moment. */
  entry: Entry
  /** The pull request after that event. */
  now: Pull
  /** The pull request before that event; undefined for the first event. */
  before: Pull | undefined
  /** The newest revision. */
  last: number
  /** Markup of the present state (checks, reviews, schedule); empty for a past moment. */
  present: string
}

function branchPoint({ ref, sha, repo }: Pull['head'], base: Pull['base'], links: PageLinks): string {
  const from = repo?.id === base.repo?.id ? '' : `${repo?.full_name ?? 'a deleted or hidden repository'}:`
  return html`<code><bdi>${from}${ref}</bdi></code> at !${commit(links, sha)}`
}

function evidenceLink({ number }: Pull, { site, repository }: PageLinks): string {
  const page = `${site}/ui${repository.slice(site.length)}/pulls/${number}/evidence`
  return html`done. <a href="${page}">Why could this be merged?</a>`
}

/** The facts beside title and description. Equal facts have equal markup, so it can be compared. */
function factsOf(pull: Pull, links: PageLinks): { name: string; value: string }[] {
  const people = (users: readonly { login: string }[]) => users.map(({ login }) => person(links, login))
  const { merged_by: by, merged_at: at, milestone, due_date: due } = pull
  const outcome = pull.merged
    ? html`merged!${by === null ? '' : ` by ${person(links, by.login)}`}, commit !${commit(links, pull.merge_commit_sha ?? '')}!${at === null ? '' : `, ${instant(at)}`}`
    : shownState(pull)
  return [
    { name: 'State', value: outcome },
    { name: 'From', value: branchPoint(pull.head, pull.base, links) },
    { name: 'Into', value: branchPoint(pull.base, pull.base, links) },
    { name: 'Merge base', value: commit(links, pull.merge_base) },
    {
      name: 'Changes',
      value: `${count(pull.changed_files, 'file')}, <span class="plus">+${pull.additions}</span> <span class="minus">−${pull.deletions}</span>`,
    },
    { name: CAN_BE_MERGED, value: pull.merged ? evidenceLink(pull, links) : pull.mergeable ? 'yes' : 'no' },
    { name: 'Labels', value: pull.labels.map((label) => labelChip(label)).join(' ') || NONE },
    { name: 'Milestone', value: milestone === null ? NONE : html`<bdi>${milestone.title}</bdi>` },
    { name: 'Assignees', value: people(pull.assignees ?? []).join(', ') || NONE },
    {
      name: 'Reviews asked of',
      value:
        [
          ...people(pull.requested_reviewers),
          ...pull.requested_reviewers_teams.map(({ name }) => html`the team <bdi>${name}</bdi>`),
        ].join(', ') || NONE,
    },
    { name: 'Deadline', value: due === null ? NONE : html`${day(due)}` },
    { name: 'Comments', value: `${pull.comments}` },
    { name: 'Edits by maintainers', value: pull.allow_maintainer_edit ? 'allowed' : 'not allowed' },
  ]
}

const FLAG = '<span class="flag">changed</span>'

function factRow(name: string, value: string, was: string | undefined): string {
  if (was === undefined) return html`<div><dt>${name}</dt><dd>!${value}</dd></div>`
  return html`<div class="changed"><dt>${name} !${FLAG}</dt><dd><mark>!${value}</mark> <span class="was">was <del>!${was}</del></span></dd></div>`
}

async function description(body: string, before: string | undefined, show: ShowText): Promise<string> {
  const changed = before !== undefined && before !== body
  const was = changed
    ? html`<details class="was"><summary>The previous description</summary>!${await show(before || 'No description.', PROSE_CHARACTERS)}</details>`
    : ''
  return html`<div class="description!${changed ? ' changed' : ''}">
<h2>Description !${changed ? FLAG : ''}</h2>
!${body === '' ? '<p class="none">No description.</p>' : await show(body, PROSE_CHARACTERS)}
!${was}</div>`
}

/** Returns a sentence with the names of the changed facts. */
function summary(changed: readonly string[], first: boolean): string {
  if (first) return 'This is the first event: everything is new.'
  if (changed.length === 0) return 'This event changed nothing that is shown here.'
  return `Changed: ${changed.join(', ')}.`
}

/** Returns the section's markup. `data-diff` identifies commits and diff: the script keeps them if it is unchanged. */
export async function pullStateSection(
  { entry, now, before, last, present }: PullState,
  links: PageLinks,
  show: ShowText,
): Promise<string> {
  // `present` has this fact with its reasons.
  const facts = factsOf(now, links).filter(({ name }) => present === '' || name !== CAN_BE_MERGED)
  const old = new Map(
    before === undefined ? [] : factsOf(before, links).map(({ name, value }) => [name, value]),
  )
  const rows = facts.map(({ name, value }) => {
    const was = old.get(name)
    return { name, value, was: was === value ? undefined : was }
  })
  const retitled = before !== undefined && before.title !== now.title
  const changed = [
    ...(retitled ? ['Title'] : []),
    ...rows.filter(({ was }) => was !== undefined).map(({ name }) => name),
    ...(before !== undefined && before.body !== now.body ? ['Description'] : []),
  ]
  const title = html`<bdi>${now.title}</bdi>`
  const state = shownState(now)
  return html`<section id="moment" class="moment" aria-labelledby="title" data-revision="${entry.revision}" data-diff="${diffName(now)}">
<p class="opener">!${person(links, now.user.login)} ${now.merged ? 'asked to merge' : 'wants to merge'} <code><bdi>${now.head.ref}</bdi></code> into <code><bdi>${now.base.ref}</bdi></code></p>
<h1 id="title"!${retitled ? ' class="changed"' : ''}>!${retitled ? `<mark>${title}</mark>` : title} <span class="number">#${now.number}</span></h1>
!${retitled ? html`<p class="was">!${FLAG} was <del><bdi>${before.title}</bdi></del></p>` : ''}
<div class="event ${entry.kind}">
<p class="when">!${stateBadge(state)} after event ${entry.revision + 1} of <span class="total">${last + 1}</span>, !${instant(entry.at)}</p>
<p class="sentence">!${sentence(entry, links)}</p>
!${await show(entry.text ?? '', PROSE_CHARACTERS)}
<p class="summary">${summary(changed, before === undefined)}</p>
</div>
<dl class="facts">
!${rows.map(({ name, value, was }) => factRow(name, value, was))}</dl>
!${present}
!${await description(now.body, before?.body, show)}
</section>`
}

/** Returns the ids of the commits at both ends of a pull request's commits and diff. */
export function diffOf(pull: Pull): { commitsFrom: string; from: string; to: string } {
  const { merged, merge_base: from, base, head } = pull
  return { commitsFrom: merged ? from : base.sha, from, to: head.sha }
}

/** Returns a name for the commits and the diff of a pull request. Equal names mean equal contents. */
export function diffName(pull: Pull): string {
  const { commitsFrom, from, to } = diffOf(pull)
  return [commitsFrom, from, to].map(shortId).join('-')
}
