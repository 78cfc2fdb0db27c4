/** The commits of a pull request at a moment, and their diff. */
import type { FastifyBaseLogger } from 'fastify'
import { html } from 'ghtml'
import { SlotsFull } from '../concurrency/semaphore.ts'
import { commitRange } from '../git/commits/commit-range.ts'
import { type CommitFacts, commitFacts } from '../git/commits/commits.ts'
import {
  GitFailed,
  GitOutputTooLarge,
  GitTooSlow,
  GitUnavailable,
  RepositoryMissing,
} from '../git/process/errors.ts'
import type { TransferShare } from '../git/process/limits.ts'
import { renderedDiff } from './diff.ts'
import { count, instant, shortId } from './format.ts'

/** Maximum number of listed commits, the newest first. */
const COMMITS = 50
const SUBJECT_CHARACTERS = 200
const UNREADABLE = 'The commits of this moment were deleted, or cannot be read now.'
const REMOVED = 'No branch or tag has these commits any more, so only users with write permission see them.'

/** The requester and the requester's scheduling share. */
interface Reader {
  log: FastifyBaseLogger
  share: TransferShare
  signal: AbortSignal
}

/** Resolves to undefined when git no longer has the commits or is unavailable: the page is shown without them. */
async function changesOf(
  dir: string,
  { commitsFrom, from, to }: { commitsFrom: string; from: string; to: string },
  { log, share, signal }: Reader,
) {
  try {
    const options = { queue: 'query', signal } as const
    const range = await commitRange(dir, commitsFrom, to, options)
    const ids = range.page(0, COMMITS)
    const [facts, diff] = await Promise.all([
      commitFacts(dir, ids, options),
      renderedDiff(dir, from, to, share, signal),
    ])
    return { commits: ids.flatMap((id) => facts.get(id) ?? []), total: range.total, diff }
  } catch (error) {
    const known = [GitFailed, GitOutputTooLarge, GitTooSlow, GitUnavailable, RepositoryMissing, SlotsFull]
    if (!known.some((type) => error instanceof type)) throw error
    log.warn({ err: error }, 'the page shows a pull request without its commits')
    return undefined
  }
}

function commitItem({ sha, message, author }: CommitFacts): string {
  const subject = message.split('\n', 1)[0] ?? ''
  // The author's date has the author's time zone; show it in UTC. Leave out an invalid date.
  const at = Number.isNaN(Date.parse(author.date)) ? '' : instant(new Date(author.date).toISOString())
  return html`<li><span class="subject" dir="auto">${subject.slice(0, SUBJECT_CHARACTERS)}</span> <span class="by"><code>${shortId(sha)}</code> <bdi>${author.name}</bdi> !${at}</span></li>`
}

/**
 * The section's markup. `isShown`: whether the reader may see the commits. `name`: see `diffName`. `wholeUrl`: the address
 * of the whole diff as text.
 */
export async function changesSection(
  dir: string,
  range: { commitsFrom: string; from: string; to: string },
  { isShown, name, wholeUrl, ...reader }: Reader & { isShown: boolean; name: string; wholeUrl: string },
): Promise<string> {
  const changes = isShown ? await changesOf(dir, range, reader) : undefined
  const content =
    changes === undefined
      ? `<p class="none">${isShown ? UNREADABLE : REMOVED}</p>`
      : html`<h2 id="commits-title">${count(changes.total, 'commit')}</h2>
<ol class="commits" aria-labelledby="commits-title">
!${changes.commits.map(commitItem)}</ol>
!${changes.total > changes.commits.length ? `<p class="cut">And ${changes.total - changes.commits.length} older commits.</p>` : ''}
<h2>Diff</h2>
!${changes.diff.markup || '<p class="none">No file changed.</p>'}
!${changes.diff.cut ? html`<p class="cut">This is only the beginning of a large diff. <a href="${wholeUrl}">Show all of it as text</a></p>` : ''}`
  return html`<section id="changes" class="changes" aria-label="Commits and their diff" data-diff="${name}">
!${content}
</section>`
}
