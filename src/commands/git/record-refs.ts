/** Records refs that git has moved: an event names each ref and, for a branch, its new commit. */
import { v5 as uuidV5 } from 'uuid'
import { cutText, eventBytes, jsonBytes, MAX_APPEND_BYTES } from '../../events/append-size.ts'
import type { BranchPoint, CommitSummary, GitEvent, RefUpdate } from '../../events/domain-events.ts'
import { gitStream } from '../../events/streams.ts'
import { type CommitFacts, commitFacts, type Signature } from '../../git/commits.ts'
import { deleteRef, type RefOutcome } from '../../git/refs.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { inTurn } from '../../turns.ts'
import { append, type CommandContext } from '../execute.ts'

export interface MovedRef {
  ref: string
  from: string | null
  to: string | null
}

/** At most this many refs go into one event. A larger push is several events, in as many appends as they need. */
const REFS_PER_EVENT = 500
/** Bytes of the refs and commits of one event. */
const MAX_EVENT_BYTES = 256 * 1024
/** Room for the metadata of one event: ids, times and names, all of them short. */
const METADATA_BYTES = 2 * 1024
/** The commits of so many branches are read at a time: each may have a message of 1 MB. */
const BRANCHES_AT_ONCE = 50
/** Bytes of a commit message in an event. Lists show only its beginning, and git has all of it. */
const MAX_MESSAGE_BYTES = 8 * 1024
/** Bytes of a name and of an address in a commit. Nobody's is longer; git itself has no limit. */
const MAX_NAME_BYTES = 512

const MOVE_NAMESPACE = '0a3e3f0b-6c0f-4f4e-9a53-5a3a2f3f7c52'

/**
 * Appends the moves of refs. They have happened in git already, so no revision is expected. Many moves are several
 * appends. When one of them fails, the ones before it stay; the recovery compares git with the log and records the rest.
 */
export async function recordRefs(
  services: Services,
  context: CommandContext,
  repoId: number,
  cause: GitEvent['data']['cause'],
  moved: readonly MovedRef[],
): Promise<void> {
  let part = 0
  let events: GitEvent[] = []
  let bytes = 0
  async function flushed(): Promise<void> {
    if (events.length === 0) return
    // The first append has the id that it had before there could be several.
    const step = part === 0 ? cause : `${cause} ${part}`
    await append(services.events, context, gitStream(repoId), step, events, 'any')
    part += 1
    events = []
    bytes = 0
  }
  for await (const data of eventsOf(gitDirOf(services, repoId), repoId, cause, moved)) {
    const own = eventBytes({ data }) + METADATA_BYTES
    if (bytes + own > MAX_APPEND_BYTES) await flushed()
    events.push({ type: 'RefsUpdated', data })
    bytes += own
  }
  await flushed()
}

/** The data of the events of these moves, in order. */
async function* eventsOf(
  dir: string,
  repoId: number,
  cause: GitEvent['data']['cause'],
  moved: readonly MovedRef[],
): AsyncIterable<GitEvent['data']> {
  let refs: RefUpdate[] = []
  let commits = new Map<string, CommitSummary>()
  let bytes = 0
  for (let i = 0; i < moved.length; i += BRANCHES_AT_ONCE) {
    const next = moved.slice(i, i + BRANCHES_AT_ONCE)
    const summaries = await summariesOf(dir, next)
    for (const { ref, from, to } of next) {
      const update = { ref, from, to }
      const summary = to === null || !isBranch(ref) ? undefined : summaries.get(to)
      const own = jsonBytes(update) + (summary === undefined ? 0 : jsonBytes(summary))
      if (refs.length === REFS_PER_EVENT || bytes + own > MAX_EVENT_BYTES) {
        yield { repoId, cause, refs, commits: [...commits.values()] }
        refs = []
        commits = new Map()
        bytes = 0
      }
      const isNew = summary !== undefined && !commits.has(summary.sha)
      bytes += jsonBytes(update) + (isNew ? jsonBytes(summary) : 0)
      refs.push(update)
      if (isNew) commits.set(summary.sha, summary)
    }
  }
  if (refs.length > 0) yield { repoId, cause, refs, commits: [...commits.values()] }
}

const isBranch = (ref: string) => ref.startsWith('refs/heads/')

/** The new commits of the branches among the moved refs, by id. */
async function summariesOf(dir: string, moved: readonly MovedRef[]): Promise<Map<string, CommitSummary>> {
  const shas = moved.flatMap(({ ref, to }) => (to === null || !isBranch(ref) ? [] : [to]))
  const facts = await commitFacts(dir, new Set(shas))
  return new Map([...facts].map(([sha, fact]) => [sha, summaryOf(fact)]))
}

/** The parts of a commit that an event has, cut to what fits. */
function summaryOf({ sha, message, author, committer }: CommitFacts): CommitSummary {
  return {
    sha,
    message: cutText(message, MAX_MESSAGE_BYTES),
    author: shortSignature(author),
    committer: shortSignature(committer),
  }
}

const shortSignature = ({ name, email, date }: Signature): Signature => ({
  name: cutText(name, MAX_NAME_BYTES),
  email: cutText(email, MAX_NAME_BYTES),
  date,
})

/**
 * Records the move that merges a pull request. A pull request is merged once. So when recovery records the move
 * again after a crash, it is the same event.
 */
export async function recordMerge(
  services: Services,
  context: CommandContext,
  repoId: number,
  index: number,
  moved: MovedRef,
): Promise<void> {
  const namespace = uuidV5(`${repoId}.${index} ${moved.ref} ${moved.from} ${moved.to}`, MOVE_NAMESPACE)
  const own = { ...context, retry: { namespace, digest: 'merge' } }
  await recordRefs(services, own, repoId, 'merge', [moved])
  context.written = Math.max(context.written, own.written)
}

/** The refs move in this process, so a recovery has no other process to wait for. */
const NO_PROCESS = 0

/**
 * Runs `work`, which moves refs of a repository and records the moves. It waits for its turn with pushes, so that
 * the log has the moves of a branch in git's order. A crash or a failure between the two leaves a marker: the next
 * recovery then records the refs that git has.
 */
export function moveRefs<T>(services: Services, repoId: number, work: () => Promise<T>): Promise<T> {
  return inTurn(gitDirOf(services, repoId), async () => {
    const marker = await services.pushJournal.begin(`${repoId}`, NO_PROCESS)
    try {
      const result = await work()
      await services.pushJournal.finish(marker)
      return result
    } catch (error) {
      services.pushJournal.abandon(marker)
      throw error
    }
  })
}

/** Deletes a branch if its tip is `sha`, and records that. Resolves to `stale` when the tip is another commit. */
export function removeBranch(
  services: Services,
  context: CommandContext,
  { repoId, branch, sha }: BranchPoint,
): Promise<RefOutcome> {
  const ref = `refs/heads/${branch}`
  return moveRefs(services, repoId, async () => {
    const outcome = await deleteRef(gitDirOf(services, repoId), ref, sha)
    const moved = outcome === 'moved' ? [{ ref, from: sha, to: null }] : []
    await recordRefs(services, context, repoId, 'branch-deletion', moved)
    return outcome
  })
}
