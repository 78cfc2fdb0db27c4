/** Records refs that git has moved: an event names each ref and, for a branch, its new commit. */
import { v5 as uuidV5 } from 'uuid'
import { cutText, eventBytes, jsonBytes, MAX_APPEND_BYTES } from '../../events/append-size.ts'
import type { BranchPoint, CommitSummary, GitEvent, RefUpdate } from '../../events/domain-events.ts'
import {
  type Append,
  type ExpectedRevision,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../../events/event-store.ts'
import type { TagTime } from '../../events/ref-causes.ts'
import { gitStream } from '../../events/streams.ts'
import { type CommitFacts, fromCommits, type Signature } from '../../git/commits.ts'
import { type RefChange, type RefOutcome, readRefs, updateRef } from '../../git/refs.ts'
import { piecesOf } from '../../pieces.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { append, type CommandContext, eventsOf } from '../execute.ts'
import { inGitTurn } from './git-turn.ts'
import { isRecorded } from './recorded-change.ts'
import { recordedRefs } from './recorded-refs.ts'
import { tagTimes } from './tag-times.ts'

export interface MovedRef {
  ref: string
  from: string | null
  to: string | null
}

/**
 * At most this many refs go into one event. A larger push is several events, in as many appends as they need. Whoever folds
 * an event does it in one go, and so it holds the event loop for as long.
 */
const REFS_PER_EVENT = 200
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

/** How often the moves are compared with the log again, when others write it at the same time. */
const MAX_COMPARISONS = 20

/**
 * Appends the moves of refs. They have happened in git already, so there is nothing to refuse. Many moves are several
 * appends. When one of them fails, the ones before it stay; the recovery compares git with the log and records the rest.
 *
 * `since`: what `inGitTurn` gave; `options`: what the pusher passed with `--push-option`. When the log has moved on from there, this node has lost its turn, and others have
 * recorded what they found. Then only the moves are recorded that git still has and the log lacks.
 */
export async function recordRefs(
  services: Services,
  context: CommandContext,
  repoId: number,
  cause: GitEvent['data']['cause'],
  moved: readonly MovedRef[],
  since: ExpectedRevision,
  options: readonly string[] = [],
): Promise<void> {
  try {
    await appendMoves(services, context, repoId, { cause, options, step: cause }, moved, since)
  } catch (error) {
    if (since === 'any' || !(error instanceof WrongExpectedRevision)) throw error
    await recordMissing(services, context, repoId, cause, moved, options)
  }
}

/** Records those of the moves that git has and the log has not. Needs no turn: each append expects what was read. */
async function recordMissing(
  services: Services,
  context: CommandContext,
  repoId: number,
  cause: GitEvent['data']['cause'],
  moved: readonly MovedRef[],
  options: readonly string[] = [],
): Promise<void> {
  const dir = gitDirOf(services, repoId)
  const names = moved.map(({ ref }) => ref)
  for (let tries = 0; tries < MAX_COMPARISONS; tries++) {
    const { refs, revision } = await recordedRefs(services, repoId)
    const now = await readRefs(dir, names)
    const missing = moved
      .map(({ ref, to }) => ({ ref, from: refs.get(ref) ?? null, to }))
      .filter(({ ref, from, to }) => from !== to && (now.get(ref) ?? null) === to)
    try {
      // The ids must not be those of the first attempt: a part of it may be in the log.
      const step = `${cause} after ${revision}`
      return await appendMoves(services, context, repoId, { cause, options, step }, missing, revision)
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error
    }
  }
  throw new StoreUnavailable(`the refs of repository ${repoId} are written by too many at the same time`)
}

interface Reason {
  cause: GitEvent['data']['cause']
  /** What the pusher passed with `--push-option`. */
  options: readonly string[]
  /** Names the appends within their request. */
  step: string
}

async function appendMoves(
  services: Services,
  context: CommandContext,
  repoId: number,
  { cause, options, step }: Reason,
  moved: readonly MovedRef[],
  since: ExpectedRevision,
): Promise<void> {
  let expected = since
  let part = 0
  let events: GitEvent[] = []
  let bytes = 0
  async function flushed(): Promise<void> {
    if (events.length === 0) return
    // The first append has the id that it had before there could be several.
    const own = part === 0 ? step : `${step} ${part}`
    const { revision } = await append(services.events, context, gitStream(repoId), own, events, expected)
    if (expected !== 'any') expected = revision
    part += 1
    events = []
    bytes = 0
  }
  for await (const data of dataOf(gitDirOf(services, repoId), repoId, cause, moved)) {
    if (options.length > 0 && part === 0 && events.length === 0) data.options = [...options]
    const own = eventBytes({ data }) + METADATA_BYTES
    if (bytes + own > MAX_APPEND_BYTES) await flushed()
    events.push({ type: 'RefsUpdated', data })
    bytes += own
  }
  await flushed()
}

/** The data of the events of these moves, in order. */
async function* dataOf(
  dir: string,
  repoId: number,
  cause: GitEvent['data']['cause'],
  moved: readonly MovedRef[],
): AsyncIterable<GitEvent['data']> {
  let refs: RefUpdate[] = []
  let commits = new Map<string, CommitSummary>()
  let tags = new Map<string, TagTime>()
  let bytes = 0
  const data = () => ({
    ...{ repoId, cause, refs, commits: [...commits.values()] },
    ...(tags.size > 0 && { tags: [...tags.values()] }),
  })
  const pieces = piecesOf('refs')
  for (let i = 0; i < moved.length; i += BRANCHES_AT_ONCE) {
    if (pieces.isOver()) await pieces.next()
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
async function summariesOf(dir: string, moved: readonly MovedRef[]): Promise<Map<string, CommitSummary>> {
  const shas = moved.flatMap(({ ref, to }) => (to === null || !isBranch(ref) ? [] : [to]))
  return await fromCommits(dir, shas, summaryOf)
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
  { since, isRepeated }: { since: ExpectedRevision; isRepeated: boolean },
): Promise<void> {
  const own = ofMerge(context, repoId, index, moved)
  // An append that expects a revision does not look for its ids in the whole stream.
  if (isRepeated && since !== 'any') await recordMissing(services, own, repoId, 'merge', [moved])
  else await recordRefs(services, own, repoId, 'merge', [moved], since)
  context.written = Math.max(context.written, own.written)
}

/** The append of `recordMerge` for a move that is not repeated, for who makes it together with others. */
export async function moveOfMerge(
  services: Services,
  context: CommandContext,
  repoId: number,
  index: number,
  moved: MovedRef,
  since: ExpectedRevision,
): Promise<Append> {
  const stream = gitStream(repoId)
  const moves: GitEvent[] = []
  for await (const data of dataOf(gitDirOf(services, repoId), repoId, 'merge', [moved])) {
    moves.push({ type: 'RefsUpdated', data })
  }
  const own = ofMerge(context, repoId, index, moved)
  return { stream, events: eventsOf(own, stream, 'merge', moves), expected: since }
}

/** The context in which the move of a merge is recorded: its event has the same id whenever that is. */
function ofMerge(context: CommandContext, repoId: number, index: number, { ref, from, to }: MovedRef) {
  const namespace = uuidV5(`${repoId}.${index} ${ref} ${from} ${to}`, MOVE_NAMESPACE)
  return { ...context, retry: { namespace, digest: 'merge' } }
}

/** The refs move in this process, so a recovery has no other process to wait for. */
const NO_PROCESS = 0

/**
 * Runs `work`, which moves refs of a repository and records the moves. It waits for its turn with pushes, so that
 * the log has the moves of a branch in git's order; `since` is for `recordRefs`. A crash or a failure between the two leaves a marker: the next
 * recovery then records the refs that git has. `requireAllowed` decides again when the turn has come, and throws when the
 * refs must not move any more.
 */
export function moveRefs<T>(
  services: Services,
  repoId: number,
  work: (since: ExpectedRevision) => Promise<T>,
  requireAllowed: () => Promise<unknown> = async () => {},
): Promise<T> {
  return inGitTurn(services, repoId, async (since) => {
    await requireAllowed()
    const marker = await services.pushJournal.begin(`${repoId}`, NO_PROCESS)
    try {
      const result = await work(since)
      await services.pushJournal.finish(marker)
      return result
    } catch (error) {
      services.pushJournal.abandon(marker)
      throw error
    }
  })
}

/**
 * Makes, moves or deletes one ref if it is where the change expects it, and records that. A retried request whose first
 * attempt did it finds it done. `stale` and `name-conflict` as in `updateRefs`: nothing moved then. Rights may end and
 * rules may change while the request waits for its turn: `requireAllowed` as in `moveRefs`.
 */
export function changeRef(
  services: Services,
  context: CommandContext,
  repoId: number,
  cause: GitEvent['data']['cause'],
  change: RefChange,
  requireAllowed: () => Promise<unknown>,
): Promise<RefOutcome> {
  async function work(since: ExpectedRevision): Promise<RefOutcome> {
    const { ref, from, to } = change
    const outcome = await updateRef(gitDirOf(services, repoId), ref, { from, to })
    if (outcome === 'stale' && (await isRecorded(services, context, repoId, cause, change))) return 'moved'
    await recordRefs(services, context, repoId, cause, outcome === 'moved' ? [change] : [], since)
    return outcome
  }
  return moveRefs(services, repoId, work, requireAllowed)
}

/** Deletes a branch if its tip is `sha`, and records that. Resolves to `stale` when the tip is another commit. */
export function removeBranch(
  services: Services,
  context: CommandContext,
  { repoId, branch, sha }: BranchPoint,
  requireAllowed: () => Promise<unknown>,
): Promise<RefOutcome> {
  const change = { ref: `refs/heads/${branch}`, from: sha, to: null }
  return changeRef(services, context, repoId, 'branch-deletion', change, requireAllowed)
}
