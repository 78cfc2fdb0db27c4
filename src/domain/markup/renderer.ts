/** Reads markdown in a thread of its own, one text at a time: a text may be made to take long. */

import { taskThread } from '../../concurrency/task-thread.ts'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Markdown, Prose } from './render.ts'

const DEADLINE_MS = 2000

const thread = taskThread<Markdown | Prose, string>({
  path: 'domain/markup/render-thread',
  name: 'markdown',
  deadlineMs: DEADLINE_MS,
})

/**
 * The safe HTML of a text. `client`: whose work it is.
 * @throws Refused (unprocessable) for a text that takes too long, or whose HTML is too long; SlotsFull when too many wait
 */
export async function renderInThread(client: string, markdown: Markdown): Promise<string> {
  const html = await thread.run(client, markdown)
  if (html !== undefined) return html
  limitReached('markdown_time')
  throw new Refused(refuse.unprocessable('Text: takes too long to render, or becomes too long'))
}

/**
 * The words of a text, without code; empty for a text that takes too long. `client`: as above.
 * @throws SlotsFull when too many wait
 */
export async function proseInThread(client: string, text: Prose): Promise<string> {
  const prose = await thread.run(client, text)
  if (prose === undefined) limitReached('markdown_time')
  return prose ?? ''
}
