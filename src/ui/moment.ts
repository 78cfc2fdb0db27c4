/** The pull request as it stood at a moment, with what its last event changed marked. Pure. */
import { html } from 'ghtml'
import type { Static } from 'typebox'
import type { PullRequestWire } from '../wire/pulls.ts'
import { type Entry, sentence } from './timeline.ts'
import { count, day, instant, prose, shortId } from './words.ts'

type Pull = Static<typeof PullRequestWire>

/** So much of a description or comment is shown. */
const PROSE_CHARACTERS = 20_000
const NONE = '<span class="none">none</span>'

export interface Moment {
  /** The event that made it so. */
  entry: Entry
  now: Pull
  /** As it stood before that event; undefined for the first. */
  before: Pull | undefined
  /** The newest revision that there is. */
  last: number
}

/** What the state is called, and how it is marked. */
export function stateOf({ merged, state, draft }: Pull): 'merged' | 'closed' | 'draft' | 'open' {
  if (merged) return 'merged'
  if (state === 'closed') return 'closed'
  return draft ? 'draft' : 'open'
}

const person = ({ login }: { login: string }) => html`<bdi>${login}</bdi>`

function branchPoint({ ref, sha, repo }: Pull['head'], base: Pull['base']): string {
  const from =
    repo?.id === base.repo?.id ? '' : `${repo?.full_name ?? 'a repository that is gone or hidden'}:`
  return html`<code><bdi>${from}${ref}</bdi></code> at <code>${shortId(sha)}</code>`
}

/** Colours come as attributes of a drawing: a style would be refused by the page's own policy. */
function label({ name, color }: Pull['labels'][number]): string {
  return html`<span class="label"><svg viewBox="0 0 10 10" aria-hidden="true"><circle cx="5" cy="5" r="5" fill="#${color}"/></svg><bdi>${name}</bdi></span>`
}

/** What is shown beside title and description: the same words for the same facts. */
function factsOf(pull: Pull): { name: string; value: string }[] {
  const { merged_by: by, merged_at: at, milestone, due_date: due } = pull
  const outcome = pull.merged
    ? html`merged!${by === null ? '' : ` by ${person(by)}`}, commit <code>${shortId(pull.merge_commit_sha ?? '')}</code>!${at === null ? '' : `, ${instant(at)}`}`
    : stateOf(pull)
  return [
    { name: 'State', value: outcome },
    { name: 'From', value: branchPoint(pull.head, pull.base) },
    { name: 'Into', value: branchPoint(pull.base, pull.base) },
    { name: 'Merge base', value: html`<code>${shortId(pull.merge_base)}</code>` },
    {
      name: 'Changes',
      value: `${count(pull.changed_files, 'file')}, <span class="plus">+${pull.additions}</span> <span class="minus">−${pull.deletions}</span>`,
    },
    { name: 'Can be merged', value: pull.merged ? 'done' : pull.mergeable ? 'yes' : 'no' },
    { name: 'Labels', value: pull.labels.map(label).join(' ') || NONE },
    { name: 'Milestone', value: milestone === null ? NONE : html`<bdi>${milestone.title}</bdi>` },
    { name: 'Assignees', value: (pull.assignees ?? []).map(person).join(', ') || NONE },
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

function description(body: string, before: string | undefined): string {
  const changed = before !== undefined && before !== body
  const was = changed
    ? html`<details class="was"><summary>As it was before</summary>!${prose(before || 'Nothing.', PROSE_CHARACTERS)}</details>`
    : ''
  return html`<div class="description!${changed ? ' changed' : ''}">
<h2>Description !${changed ? FLAG : ''}</h2>
!${body === '' ? '<p class="none">No description.</p>' : prose(body, PROSE_CHARACTERS)}
!${was}</div>`
}

/** What changed, in words: names of what is shown. */
function summary(changed: readonly string[], first: boolean): string {
  if (first) return 'The beginning: all of it is new.'
  return changed.length === 0 ? 'Nothing of what is shown here changed.' : `Changed: ${changed.join(', ')}.`
}

/** `data-diff` names what the commits and their diff are made of: equal names, equal diffs. */
export function momentSection({ entry, now, before, last }: Moment): string {
  const facts = factsOf(now)
  const old = new Map(before === undefined ? [] : factsOf(before).map(({ name, value }) => [name, value]))
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
  const state = stateOf(now)
  return html`<section id="moment" class="moment" aria-labelledby="title" data-revision="${entry.revision}" data-diff="${diffName(now)}">
<p class="opener">!${person(now.user)} ${now.merged ? 'brought' : 'wants to bring'} <code><bdi>${now.head.ref}</bdi></code> into <code><bdi>${now.base.ref}</bdi></code></p>
<h1 id="title"!${retitled ? ' class="changed"' : ''}>!${retitled ? `<mark>${title}</mark>` : title} <span class="number">#${now.number}</span></h1>
!${retitled ? html`<p class="was">!${FLAG} was <del><bdi>${before.title}</bdi></del></p>` : ''}
<div class="event ${entry.kind}">
<p class="when"><span class="state ${state}">${state}</span> after event ${entry.revision + 1} of <span class="total">${last + 1}</span>, !${instant(entry.at)}</p>
<p class="told">!${sentence(entry)}</p>
!${entry.text ? prose(entry.text, PROSE_CHARACTERS) : ''}
<p class="summary">${summary(changed, before === undefined)}</p>
</div>
<dl class="facts">
!${rows.map(({ name, value, was }) => factRow(name, value, was))}</dl>
!${description(now.body, before?.body)}
</section>`
}

/** From where to where the commits and the diff of a pull request go. */
export function diffOf(pull: Pull): { commitsFrom: string; from: string; to: string } {
  const { merged, merge_base: from, base, head } = pull
  return { commitsFrom: merged ? from : base.sha, from, to: head.sha }
}

export function diffName(pull: Pull): string {
  const { commitsFrom, from, to } = diffOf(pull)
  return [commitsFrom, from, to].map(shortId).join('-')
}
