/** What events say of refs that have moved: each ref and, for a branch, its new commit; for a tag, its time. */

import { timeSlices } from '../../concurrency/event-loop.ts'
import type { CommitSummary, GitEvent, RefUpdate } from '../../events/catalog/branches.ts'
import type { TagTime } from '../../events/catalog/tags.ts'
import { cutText, jsonBytes } from '../../events/store/append-size.ts'
import { type CommitFacts, fromCommits, type Signature } from '../../git/commits/commits.ts'
import { tagTimes } from './tag-times.ts'

/**
 * At most this many refs go into one event. A larger push is several events, in as many appends as they need. Whoever folds
 * an event does it in one go, and so it holds the event loop for as long.
 */
const REFS_PER_EVENT = 200
/** Bytes of the refs and commits of one event. */
const MAX_EVENT_BYTES = 256 * 1024
/** The commits of so many branches are read at a time: each may have a message of 1 MB. */
const BRANCHES_AT_ONCE = 50
/** Bytes of a commit message in an event. Lists show only its beginning, and git has all of it. */
const MAX_MESSAGE_BYTES = 8 * 1024
/** Bytes of a name and of an address in a commit. Nobody's is longer; git itself has no limit. */
const MAX_NAME_BYTES = 512

/** The data of the `RefsUpdated` events of these moves, in order. */
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
  for (let i = 0; i < moved.length; i += BRANCHES_AT_ONCE) {
    if (slices.isOver()) await slices.next()
    const next = moved.slice(i, i + BRANCHES_AT_ONCE)
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

/** The new commits of the branches among the moved refs, by id. */
async function summariesOf(dir: string, moved: readonly RefUpdate[]): Promise<Map<string, CommitSummary>> {
  const shas = moved.flatMap(({ ref, to }) => (to === null || !isBranch(ref) ? [] : [to]))
  return await fromCommits(dir, shas, summaryOf)
}

/** The parts of a commit that an event has, cut to what fits. */
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
