/** Numbers, dates and texts as the page shows them. `html` escapes the values that it inserts into markup. */
import { html } from 'ghtml'

export const count = (number: number, thing: string) => `${number} ${thing}${number === 1 ? '' : 's'}`

/** The first 10 characters of a commit's id. */
export const shortId = (sha: string) => sha.slice(0, 10)

/** The day of an ISO 8601 date, in the date's own time zone. */
export const day = (at: string) => at.slice(0, 10)

/** A time of the log, which is in UTC. */
export function instant(at: string): string {
  return html`<time datetime="${at}">${at.slice(0, 10)} ${at.slice(11, 19)} <abbr title="Coordinated Universal Time">UTC</abbr></time>`
}

/** Plain text with its line breaks. Shows at most `limit` characters of it. */
export function prose(text: string, limit: number): string {
  const shown = text.length > limit ? text.slice(0, limit) : text
  const rest = text.length - shown.length
  return html`<blockquote class="prose" dir="auto">${shown}!${
    rest > 0 ? html`<span class="cut">… and ${rest} more characters</span>` : ''
  }</blockquote>`
}
