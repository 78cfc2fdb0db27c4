/** Numbers, dates and texts as the page writes them. Markup is made with `html`, which escapes what is put in. */
import { html } from 'ghtml'

export const count = (number: number, thing: string) => `${number} ${thing}${number === 1 ? '' : 's'}`

/** So much of a commit's id is shown. */
export const shortId = (sha: string) => sha.slice(0, 10)

/** The day of an ISO 8601 date, in the zone in which it was given. */
export const day = (at: string) => at.slice(0, 10)

/** An instant, as the log has it: in UTC. */
export function instant(at: string): string {
  return html`<time datetime="${at}">${at.slice(0, 10)} ${at.slice(11, 19)} <abbr title="Coordinated Universal Time">UTC</abbr></time>`
}

/** Plain text as it was written, line breaks kept; no more than so many characters of it. */
export function prose(text: string, most: number): string {
  const shown = text.length > most ? text.slice(0, most) : text
  const rest = text.length - shown.length
  return html`<blockquote class="prose" dir="auto">${shown}!${
    rest > 0 ? html`<span class="cut">… and ${rest} more characters</span>` : ''
  }</blockquote>`
}
