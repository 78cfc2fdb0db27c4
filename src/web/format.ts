/** Formats numbers, dates and texts for pages. `html` escapes the values that it inserts into markup. */
import { html } from 'ghtml'

/** Plurals that do not end with `s` alone. */
const PLURALS: Readonly<Record<string, string>> = {
  branch: 'branches',
  entry: 'entries',
  repository: 'repositories',
}

export const count = (number: number, thing: string) =>
  `${number} ${number === 1 ? thing : (PLURALS[thing] ?? `${thing}s`)}`

/** The first 10 characters of a commit's id. */
export const shortId = (sha: string) => sha.slice(0, 10)

/** The day of an ISO 8601 date, in the date's own time zone. */
export const day = (at: string) => at.slice(0, 10)

/** Prefixes of links on the page of a pull request: the paths of the site and of the repository's pages. */
export interface PageLinks {
  site: string
  repository: string
}

export const person = ({ site }: Pick<PageLinks, 'site'>, login: string) =>
  html`<a href="${site}/${login}"><bdi>${login}</bdi></a>`

/** A commit with its short id. */
export const commit = ({ repository }: PageLinks, sha: string) =>
  html`<a href="${repository}/commit/${sha}"><code>${shortId(sha)}</code></a>`

/** A time of the log, which is in UTC. */
export function instant(at: string): string {
  return html`<time datetime="${at}">${at.slice(0, 10)} ${at.slice(11, 19)} <abbr title="Coordinated Universal Time">UTC</abbr></time>`
}

/** Plain text with its line breaks. Shows at most `limit` characters of it. */
export function prose(text: string, limit: number): string {
  return html`<blockquote class="prose" dir="auto">${text.slice(0, limit)}!${cutOff(text, limit)}</blockquote>`
}

/** Notes how much of a text is hidden. */
export const cutOff = ({ length }: string, limit: number): string =>
  length > limit ? html`<span class="cut">… and ${length - limit} more characters</span>` : ''

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB']

/** A number of bytes in the largest unit of which there is at least one. */
export function bytesText(bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  const [unit = ''] = UNITS.slice(power)
  return power === 0 ? count(bytes, 'byte') : `${(bytes / 1024 ** power).toFixed(1)} ${unit}`
}

/** A query as it was parsed: a parameter may be repeated. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>

/** The address of a list with a changed query. Empty parameters are left out. */
export function addressWith(path: string, query: Query, changes: Query): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries({ ...query, ...changes })) {
    for (const one of [value ?? []].flat()) if (one !== '') search.append(name, one)
  }
  return search.size === 0 ? path : `${path}?${search}`
}
