/** Builds the events of moved refs: each ref with its new commit (branch) or time (tag). */

import { timeSlices } from '../../concurrency/event-loop.ts'
import type { CommitSummary, GitEvent, RefUpdate } from '../../events/catalog/branches.ts'
import type { TagTime } from '../../events/catalog/tags.ts'
import { cutText, jsonBytes } from '../../events/store/append-size.ts'
import { type CommitFacts, fromCommits, type Signature } from '../../git/commits/commits.ts'
import { tagTimes } from './tag-times.ts'

/**
 * Maximum number of refs in an event. A larger push is several events, since a fold of one event blocks the event loop.
 */
const REFS_PER_EVENT = 200
/** Maximum size of the refs and commits of an event, in bytes. */
const MAX_EVENT_BYTES = 256 * 1024
/** Number of branches whose commits are read together: each message may have 1 MB. */
const BRANCHES_PER_BATCH = 50
/** Maximum size of a commit message in an event, in bytes. Lists show its beginning; git has all of it. */
const MAX_MESSAGE_BYTES = 8 * 1024
/** Maximum size of a name or an address in an event, in bytes. git itself has no limit. */
const MAX_NAME_BYTES = 512

/** Yields the data of the `RefsUpdated` events of these moves, in order. */
export async function* refsUpdated(
  dir: string,
  repoId: number,
  cause: GitEvent['data']['cause'],
  moved: readonly RefUpdate[],
): AsyncIterable<GitEvent['data']> {
  let refs: RefUpdate[] = []
  let commits = new Map<string, CommitSummary>()
  let tags = new Map<string, TagTime>()
  let bytes = 0
  const data = () => ({
    ...{ repoId, cause, refs, commits: [...commits.values()] },
    ...(tags.size > 0 && { tags: [...tags.values()] }),
  })
  const slices = timeSlices('refs')
  for (let i = 0; i < moved.length; i += BRANCHES_PER_BATCH) {
    if (slices.isOver()) await slices.next()
    const next = moved.slice(i, i + BRANCHES_PER_BATCH)
    const summaries = await summariesOf(dir, next)
    const times = await tagTimes(dir, next)
    for (const { ref, from, to } of next) {
      const update = { ref, from, to }
      const summary = to === null || !isBranch(ref) ? undefined : summaries.get(to)
      const tag = to === null ? undefined : times.get(to)
      const own = [update, summary, tag].reduce((sum, part) => sum + (part ? jsonBytes(part) : 0), 0)
      if (refs.length === REFS_PER_EVENT || bytes + own > MAX_EVENT_BYTES) {
        yield data()
        refs = []
        commits = new Map()
        tags = new Map()
        bytes = 0
      }
      const isNew = summary !== undefined && !commits.has(summary.sha)
      bytes += jsonBytes(update) + (isNew ? jsonBytes(summary) : 0) + (tag ? jsonBytes(tag) : 0)
      refs.push(update)
      if (isNew) commits.set(summary.sha, summary)
      if (tag !== undefined) tags.set(tag.sha, tag)
    }
  }
  if (refs.length > 0) yield data()
}

const isBranch = (ref: string) => ref.startsWith('refs/heads/')

/** Returns the new commits of the moved branches, by id. */
async function summariesOf(dir: string, moved: readonly RefUpdate[]): Promise<Map<string, CommitSummary>> {
  const shas = moved.flatMap(({ ref, to }) => (to === null || !isBranch(ref) ? [] : [to]))
  return await fromCommits(dir, shas, summaryOf)
}

/** Returns the parts of a commit for an event, truncated to the limits. */
function summaryOf({ sha, message, author, committer, signed }: CommitFacts): CommitSummary {
  return {
    sha,
    message: cutText(message, MAX_MESSAGE_BYTES),
    author: shortSignature(author),
    committer: shortSignature(committer),
    ...(signed !== undefined && { isSigned: true }),
  }
}

const shortSignature = ({ name, email, date }: Signature): Signature => ({
  name: cutText(name, MAX_NAME_BYTES),
  email: cutText(email, MAX_NAME_BYTES),
  date,
})
