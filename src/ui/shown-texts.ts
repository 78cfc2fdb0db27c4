/** The texts of users as the page shows them. */
import { renderInThread } from '../markup/renderer.ts'
import { ErrorWithRefusal } from '../refusal.ts'
import { cutOff, prose } from './words.ts'

/** Shows at most `limit` characters of a text. */
export type ShowText = (text: string, limit: number) => Promise<string>

/**
 * Shows texts of one page as markdown. After one that takes too long, or when too many pages wait, the page shows its
 * other texts as they are: a page may have a hundred of them.
 *
 * @param client whose work it is
 * @param at the page of the server, without a trailing slash, and `owner/name` of the repository
 */
export function showTexts(client: string, at: { site: string; repository: string }): ShowText {
  let isSlow = false
  return async (text, limit) => {
    if (text === '') return ''
    if (isSlow) return prose(text, limit)
    try {
      const markup = await renderInThread(client, { text: text.slice(0, limit), hardBreaks: true, ...at })
      return `<div class="prose rendered" dir="auto">${markup}${cutOff(text, limit)}</div>`
    } catch (error) {
      if (!(error instanceof ErrorWithRefusal)) throw error
      isSlow = true
      return prose(text, limit)
    }
  }
}
