/** Renders the texts of users for pages. */
import { renderInThread } from '../domain/markup/renderer.ts'
import { ErrorWithRefusal } from '../errors/refusal.ts'
import { cutOff, prose } from './format.ts'

/** Maximum time for rendering the texts of one page, in milliseconds. */
const BUDGET_MS = 300

/** Shows at most `limit` characters of a text. */
export type ShowText = (text: string, limit: number) => Promise<string>

/**
 * Renders the texts of one page as Markdown. Once rendering has taken too long or the queue is full, the remaining
 * texts are shown as plain text; a page has up to a hundred. @param client is the scheduling key
 * @param at the page of the server, without a trailing slash, and `owner/name` of the repository
 */
export function showTexts(client: string, at: { site: string; repository: string }): ShowText {
  let leftMs = BUDGET_MS
  return async (text, limit) => {
    if (text === '') return ''
    if (leftMs <= 0) return prose(text, limit)
    const began = performance.now()
    try {
      const markup = await renderInThread(client, {
        text: text.slice(0, limit),
        hardBreaks: true,
        page: {},
        ...at,
      })
      return `<div class="prose rendered" dir="auto">${markup}${cutOff(text, limit)}</div>`
    } catch (error) {
      if (!(error instanceof ErrorWithRefusal)) throw error
      leftMs = 0
      return prose(text, limit)
    } finally {
      leftMs -= performance.now() - began
    }
  }
}
