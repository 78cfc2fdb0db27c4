/** Parses Markdown and code in a thread, one text at a time: a hostile text may take long. */

import { taskThread } from '../../concurrency/task-thread.ts'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Code } from './highlight.ts'
import type { Markdown, Prose } from './render.ts'

const DEADLINE_MS = 2000

const thread = taskThread<Markdown | Prose | Code, string>({
  path: 'domain/markup/render-thread',
  name: 'markdown',
  deadlineMs: DEADLINE_MS,
})

/**
 * Renders a text as safe HTML. `client` is the key of the queue.
 * @throws Refused (unprocessable) when the text takes too long, or the HTML is too long; SlotsFull when the queue is full
 */
export async function renderInThread(client: string, markdown: Markdown): Promise<string> {
  const html = await thread.run(client, markdown)
  if (html !== undefined) return html
  limitReached('markdown_time')
  throw new Refused(refuse.unprocessable('Text: takes too long to render, or becomes too long'))
}

/**
 * Returns the words of a text, without code; empty for a text that takes too long. `client` is the key of the queue.
 * @throws SlotsFull when the queue is full
 */
export async function proseInThread(client: string, text: Prose): Promise<string> {
  const prose = await thread.run(client, text)
  if (prose === undefined) limitReached('markdown_time')
  return prose ?? ''
}

/**
 * Returns the lines of code as HTML; undefined for an unknown language, or code that takes too long. `client` is the key
 * of the queue.
 * @throws SlotsFull when the queue is full
 */
export async function highlightInThread(client: string, code: Code): Promise<string[] | undefined> {
  const markup = await thread.run(client, code)
  if (markup === undefined) limitReached('markdown_time')
  return markup ? markup.split('\n') : undefined
}
