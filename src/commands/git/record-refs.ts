/** Records refs that git has moved. */
import { v5 as uuidV5 } from 'uuid'
import type { GitEvent, RefUpdate } from '../../events/catalog/branches.ts'
import { eventBytes, MAX_APPEND_BYTES } from '../../events/store/append-size.ts'
import {
  type Append,
  type ExpectedRevision,
  TooManyWriters,
  WrongExpectedRevision,
} from '../../events/store/event-store.ts'
import { gitStream } from '../../events/streams.ts'
import { readRefs } from '../../git/refs/refs.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { append, eventsOf } from '../execution/append.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { keepLeftObjects } from './keep-left-objects.ts'
import { recordedRefs } from './recorded-refs.ts'
import { refsUpdated } from './refs-updated.ts'

/** Reserved size of the metadata of one event, in bytes. */
const METADATA_BYTES = 2 * 1024
const MOVE_NAMESPACE = '0a3e3f0b-6c0f-4f4e-9a53-5a3a2f3f7c52'

/** Maximum number of comparisons with the log under concurrent appends. */
const MAX_COMPARISONS = 20

/**
 * Appends moves of refs. git has made them, so this never refuses. Many moves are several appends; after a failure
 * recovery records the rest.
 *
 * `options`: the pusher's `--push-option` values. `since`: from `withRefLock`. When the log has moved past it, this
 * node has lost the lock, and records only moves that git still has and the log lacks.
 */
export async function recordRefs(
  services: Services,
  context: CommandContext,
  repoId: number,
  cause: GitEvent['data']['cause'],
  moved: readonly RefUpdate[],
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

/** Records moves that git has and the log lacks. Needs no lock: each append expects the revision that was read. */
async function recordMissing(
  services: Services,
  context: CommandContext,
  repoId: number,
  cause: GitEvent['data']['cause'],
  moved: readonly RefUpdate[],
  options: readonly string[] = [],
): Promise<void> {
  for (let tries = 0; tries < MAX_COMPARISONS; tries++) {
    const { missing, revision } = await unrecordedMoves(services, repoId, moved)
    try {
      // New event ids: the log may have a part of the first attempt.
      const step = `${cause} after ${revision}`
      return await appendMoves(services, context, repoId, { cause, options, step }, missing, revision)
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error
    }
  }
  throw new TooManyWriters(`too many writers change the refs of repository ${repoId} at the same time`)
}

/**
 * Returns the moves that git has and the log lacks, relative to the log, with the revision that was read.
 * @throws RepositoryMissing
 */
export async function unrecordedMoves(services: Services, repoId: number, moved: readonly RefUpdate[]) {
  const { refs, revision } = await recordedRefs(services, repoId)
  const now = await readRefs(
    gitDirOf(services, repoId),
    moved.map(({ ref }) => ref),
  )
  const missing = moved
    .map(({ ref, to }) => ({ ref, from: refs.get(ref) ?? null, to }))
    .filter(({ ref, from, to }) => from !== to && (now.get(ref) ?? null) === to)
  return { missing, revision }
}

interface Reason {
  cause: GitEvent['data']['cause']
  /** The pusher's `--push-option` values. */
  options: readonly string[]
  /** The step of the appends within their request. */
  step: string
}

async function appendMoves(
  services: Services,
  context: CommandContext,
  repoId: number,
  { cause, options, step }: Reason,
  moved: readonly RefUpdate[],
  since: ExpectedRevision,
): Promise<void> {
  await keepLeftObjects(services, repoId, moved)
  let expected = since
  let part = 0
  let events: GitEvent[] = []
  let bytes = 0
  async function flush(): Promise<void> {
    if (events.length === 0) return
    const partStep = part === 0 ? step : `${step} ${part}`
    const { revision } = await append(services, context, gitStream(repoId), partStep, events, expected)
    if (expected !== 'any') expected = revision
    part += 1
    events = []
    bytes = 0
  }
  for await (const data of refsUpdated(gitDirOf(services, repoId), repoId, cause, moved)) {
    if (options.length > 0 && part === 0 && events.length === 0) data.options = [...options]
    const own = eventBytes({ data }) + METADATA_BYTES
    if (bytes + own > MAX_APPEND_BYTES) await flush()
    events.push({ type: 'RefsUpdated', data })
    bytes += own
  }
  await flush()
}

/** Records the move of a merge. `isRepeated`: git has made it before, so record it only if the log lacks it. */
export async function recordMerge(
  services: Services,
  context: CommandContext,
  repoId: number,
  index: number,
  moved: RefUpdate,
  { since, isRepeated }: { since: ExpectedRevision; isRepeated: boolean },
): Promise<void> {
  const own = ofMerge(context, repoId, index, moved)
  // Recovery may have recorded it as the move of a push, with another id.
  if (isRepeated) await recordMissing(services, own, repoId, 'merge', [moved])
  else await recordRefs(services, own, repoId, 'merge', [moved], since)
  context.written = Math.max(context.written, own.written)
}

/** Returns the append of `recordMerge` for a first attempt, to be combined with others. */
export async function moveOfMerge(
  services: Services,
  context: CommandContext,
  repoId: number,
  index: number,
  moved: RefUpdate,
  since: ExpectedRevision,
): Promise<Append> {
  const stream = gitStream(repoId)
  const moves: GitEvent[] = []
  for await (const data of refsUpdated(gitDirOf(services, repoId), repoId, 'merge', [moved])) {
    moves.push({ type: 'RefsUpdated', data })
  }
  const own = ofMerge(context, repoId, index, moved)
  return { stream, events: eventsOf(own, stream, 'merge', moves), expected: since }
}

/** Returns the context that records the move of a merge: its event id is always the same. */
function ofMerge(context: CommandContext, repoId: number, index: number, { ref, from, to }: RefUpdate) {
  const namespace = uuidV5(`${repoId}.${index} ${ref} ${from} ${to}`, MOVE_NAMESPACE)
  return { ...context, retry: { namespace, digest: 'merge' } }
}
