/** Components of pages, which `/ui/kit` shows in all states. They return markup; texts are escaped. */
import { html } from 'ghtml'
import { count } from './format.ts'

/** The states of issues, pull requests, milestones and releases. The names are CSS classes. */
export type State = 'open' | 'closed' | 'merged' | 'draft'

const STATE_NAMES: Readonly<Record<State, string>> = {
  open: 'Open',
  closed: 'Closed',
  merged: 'Merged',
  draft: 'Draft',
}

/** The state that is shown of an issue or a pull request: a draft is an open pull request. */
export function shownState({
  merged,
  state,
  draft,
}: {
  merged: boolean
  state: string
  draft: boolean
}): State {
  if (merged) return 'merged'
  if (state === 'closed') return 'closed'
  return draft ? 'draft' : 'open'
}

/** A shape for a state in a list, with its name for screen readers. */
export const stateMark = (state: State): string =>
  html`<span class="state-mark ${state}" role="img" aria-label="${STATE_NAMES[state]}" title="${STATE_NAMES[state]}"></span>`

export const stateBadge = (state: State): string =>
  html`<span class="badge ${state}"><span class="state-mark ${state}"></span>${STATE_NAMES[state]}</span>`

export const badge = (text: string): string => html`<span class="badge quiet">${text}</span>`

/** A number beside a word, as in tabs. */
export const counter = (number: number): string => html`<span class="count">${number}</span>`

const AVATAR_COLORS = 7

/** The initials of a person, who is named beside them. */
export function avatar(name: string, size: 'small' | 'large' = 'small'): string {
  const words = name.match(/[\p{L}\p{N}]+/gu) ?? []
  const initials = words.slice(0, 2).map(([first = '']) => first)
  const color = [...name].reduce((sum, character) => sum + (character.codePointAt(0) ?? 0), 0) % AVATAR_COLORS
  return html`<span class="avatar c${color}!${size === 'large' ? ' large' : ''}" aria-hidden="true">${initials.join('').toUpperCase() || '?'}</span>`
}

/** A day, with the exact time as its title. Empty for an invalid time, which a commit may have. */
export function time(at: string): string {
  if (Number.isNaN(Date.parse(at))) return ''
  const utc = new Date(at).toISOString()
  return html`<time datetime="${utc.slice(0, 19)}Z" title="${utc.slice(0, 10)} ${utc.slice(11, 19)} UTC">${utc.slice(0, 10)}</time>`
}

export const buttonLink = (href: string, text: string, isPrimary = false): string =>
  html`<a class="button!${isPrimary ? ' primary' : ''}" href="${href}">${text}</a>`

/** `hint`: markup. */
export const emptyState = (title: string, hint = ''): string =>
  html`<div class="empty"><strong>${title}</strong>!${hint}</div>`

/** `content`: markup. */
export const notice = (kind: 'info' | 'warning' | 'error', content: string): string =>
  html`<div class="notice ${kind}"!${kind === 'error' ? ' role="alert"' : ''}>!${content}</div>`

export const codeBlock = (text: string): string => html`<pre class="block"><code>${text}</code></pre>`

/** The color is an attribute of an SVG circle, because the Content-Security-Policy forbids inline styles. */
export function labelChip({ name, color }: { name: string; color: string }, href?: string): string {
  const content = html`<svg viewBox="0 0 10 10" aria-hidden="true"><circle cx="5" cy="5" r="5" fill="#${color}"/></svg><bdi>${name}</bdi>`
  return href === undefined
    ? `<span class="chip">${content}</span>`
    : html`<a class="chip" href="${href}">!${content}</a>`
}

export interface Choice {
  href: string
  text: string
  count?: number
  isCurrent: boolean
}

const choiceLink = ({ href, text, count: number, isCurrent }: Choice) =>
  html`<a href="${href}"!${isCurrent ? ' aria-current="page"' : ''}>${text}!${number === undefined ? '' : ` ${counter(number)}`}</a>`

export const tabs = (name: string, choices: readonly Choice[]): string =>
  html`<nav class="tabs" aria-label="${name}">!${choices.map(choiceLink)}</nav>`

/** Links of which one is the current one, for example open and closed. */
export const choiceLinks = (name: string, choices: readonly Choice[]): string =>
  html`<nav class="choices" aria-label="${name}">!${choices.map(choiceLink)}</nav>`

/** The parts are markup. */
export interface ListRow {
  id?: string
  mark?: string
  title: string
  meta?: string
  end?: string
}

const listRow = ({ id, mark = '', title, meta = '', end = '' }: ListRow) =>
  html`<li!${id === undefined ? '' : html` id="${id}"`}>!${mark}<div class="row-body"><div class="row-title">!${title}</div>!${meta === '' ? '' : `<div class="row-meta">${meta}</div>`}</div>!${end === '' ? '' : `<div class="row-end">${end}</div>`}</li>
`

/** A box with a head and rows, or with `empty` where there are none. `head`: markup. */
export const listBox = (head: string, rows: readonly ListRow[], empty: string): string =>
  html`<div class="box"><div class="box-head">!${head}</div>!${rows.length === 0 ? empty : html`<ul class="rows">!${rows.map(listRow)}</ul>`}</div>`

/** A box with a head and any content. Both are markup. */
export const box = (head: string, content: string): string =>
  html`<section class="box"><div class="box-head">!${head}</div><div class="box-body">!${content}</div></section>`

/** Names and values; the values are markup. */
export const factList = (facts: readonly (readonly [name: string, value: string])[]): string =>
  html`<dl class="facts list">!${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>!${value || '<span class="none">none</span>'}</dd></div>`)}</dl>`

export interface Shown {
  page: number
  limit: number
  total: number
}

/** Links to the pages before and after; empty for a list on one page. `hrefOf`: the address of a page. */
export function pagination(
  { page, limit, total }: Shown,
  hrefOf: (page: number) => string,
  name = 'Pages',
): string {
  const last = Math.max(1, Math.ceil(total / limit))
  if (last === 1 && page === 1) return ''
  const link = (to: number, text: string, rel: string) =>
    to < 1 || to > last ? '' : html`<a class="button" href="${hrefOf(to)}" rel="${rel}">${text}</a>`
  return html`<nav class="pages" aria-label="${name}">!${link(Math.min(page - 1, last), '← Previous', 'prev')}<span>Page ${page} of ${last}</span>!${link(page + 1, 'Next →', 'next')}</nav>`
}

/** How much of a list is shown, in words. */
export const totalText = (total: number, thing: string): string => html`<span>${count(total, thing)}</span>`

/** A choice in a form. `options`: the values with their names; the first one stands for no choice. */
export function select(
  label: string,
  name: string,
  options: readonly (readonly [value: string, text: string])[],
  chosen: string,
): string {
  const known = chosen === '' || options.some(([value]) => value === chosen)
  const all = known ? options : [...options, [chosen, chosen] as const]
  return html`<label>${label}<select name="${name}">!${all.map(([value, text]) => html`<option value="${value}"!${value === chosen ? ' selected' : ''}>${text}</option>`)}</select></label>`
}

export const searchField = (label: string, value: string): string =>
  html`<label class="wide">${label}<input type="search" name="q" value="${value}" maxlength="200"></label>`
