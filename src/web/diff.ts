/**
 * The diff between two commits as markup: limited in size, cached, and rendered in a thread, because a hostile diff may
 * take long.
 */

import { taskThread } from '../concurrency/task-thread.ts'
import { limitReached } from '../errors/limits.ts'
import { diffText } from '../git/diff/diff.ts'
import { createAnswerCache } from '../git/process/answer-cache.ts'
import type { TransferShare } from '../git/process/limits.ts'
import type { RawDiff, RenderedDiff } from './render-diff.ts'

/** Maximum number of bytes that are read of git's output. */
const MAX_BYTES = 1024 * 1024
const DEADLINE_MS = 5000

const thread = taskThread<RawDiff, RenderedDiff>({
  path: 'web/diff-thread',
  name: 'page_diffs',
  deadlineMs: DEADLINE_MS,
})

/** Thrown when the thread timed out. Not cached: a later try may succeed. */
class RenderTimeout extends Error {}

/** `client` is the scheduling key. @throws RenderTimeout when it takes too long; SlotsFull when the queue is full */
export async function renderInThread(client: string, given: RawDiff): Promise<RenderedDiff> {
  const answer = await thread.run(client, given)
  if (answer !== undefined) return answer
  limitReached('page_diff_time')
  throw new RenderTimeout('the diff takes too long to render')
}

const rendered = createAnswerCache<RenderedDiff>(32 * 1024 * 1024, ({ markup }) => 200 + 2 * markup.length)

/**
 * The diff between two commits, cached. `from`: null for a commit without parents.
 * @throws GitFailed when a commit or one of its objects is missing; RepositoryMissing, GitUnavailable, SlotsFull
 */
export async function renderedDiff(
  dir: string,
  from: string | null,
  to: string,
  share: TransferShare,
  signal: AbortSignal,
): Promise<RenderedDiff> {
  const render = async (unwanted: AbortSignal) =>
    renderInThread(share.client, await startOfDiff(dir, from, to, share, unwanted))
  try {
    return await rendered(`${dir}\0${from ?? ''}\0${to}`, render, signal)
  } catch (error) {
    if (!(error instanceof RenderTimeout)) throw error
    return { markup: '<p class="none">The diff takes too long to render.</p>', cut: true }
  }
}

/** Returns the first part of git's output. Ends git after `MAX_BYTES`. */
async function startOfDiff(
  dir: string,
  from: string | null,
  to: string,
  share: TransferShare,
  signal: AbortSignal,
): Promise<RawDiff> {
  const output = await diffText(dir, from, to, { kind: 'diff', binary: false, share, signal })
  if (Buffer.isBuffer(output)) return { bytes: output, complete: true }
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of output) {
    chunks.push(chunk)
    size += chunk.length
    if (size >= MAX_BYTES) return { bytes: Buffer.concat(chunks), complete: false }
  }
  return { bytes: Buffer.concat(chunks), complete: true }
}
