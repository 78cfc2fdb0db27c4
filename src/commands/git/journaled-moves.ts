/**
 * Moves of refs whose marker in the push journal holds all that is needed to record them as their request would have:
 * its user, and the event ids of its Idempotency-Key. So a retry finds that its first attempt succeeded.
 */
import { type Static, Type } from 'typebox'
import { type GitEvent, RefCause } from '../../events/catalog/branches.ts'
import type { DomainEvent } from '../../events/domain-events.ts'
import { LOG_START } from '../../events/store/event-store.ts'
import { gitStream } from '../../events/streams.ts'
import { type RefChange, type RefOutcome, updateRefs } from '../../git/refs/refs.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { checkOf } from '../../storage/checked-json.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { earlierResult } from '../execution/idempotency.ts'
import { recordRefs, unrecordedMoves } from './record-refs.ts'

const Account = Type.Object({ id: Type.Integer(), login: Type.String() })

/** The context of the request. */
export const JournaledContext = Type.Object({
  actor: Type.Union([Account, Type.Null()]),
  sudo: Type.Optional(Account),
  at: Type.String(),
  correlationId: Type.String(),
  causationId: Type.String(),
})
type JournaledContext = Static<typeof JournaledContext>

const Sha = Type.Union([Type.String(), Type.Null()])

const JournaledMoves = Type.Object({
  ...JournaledContext.properties,
  retry: Type.Optional(Type.Object({ namespace: Type.String(), digest: Type.String() })),
  repoId: Type.Integer(),
  cause: RefCause,
  changes: Type.Array(Type.Object({ ref: Type.String(), from: Sha, to: Sha })),
})
type JournaledMoves = Static<typeof JournaledMoves>
const isJournaledMoves = checkOf(JournaledMoves)

/** Process id in markers of moves in this process: recovery has no process to wait for. */
export const NO_PROCESS = 0

export function journaledContext({
  actor,
  sudo,
  at,
  correlationId,
  causationId,
}: CommandContext): JournaledContext {
  return { actor, ...(sudo && { sudo }), at, correlationId, causationId }
}

/** Runs `work`, which moves and records refs. A crash or failure leaves the marker. */
export async function withMarker<T>(
  { pushJournal }: Pick<Services, 'pushJournal'>,
  repoId: number,
  work: () => Promise<T>,
  note?: string,
): Promise<T> {
  const marker = await pushJournal.begin(`${repoId}`, NO_PROCESS, note)
  try {
    const result = await work()
    await pushJournal.finish(marker)
    return result
  } catch (error) {
    pushJournal.abandon(marker)
    throw error
  }
}

/** Parses the moves in a marker. */
function movesInNote(note: string | undefined): JournaledMoves | undefined {
  const moves: unknown = note === undefined ? undefined : JSON.parse(note)
  return isJournaledMoves(moves) ? moves : undefined
}

/**
 * Makes all changes or none, under the ref lock; then `record` records them. A crash or failure in between leaves the
 * marker for `recordJournaled`.
 */
export async function moveJournaled(
  services: Services,
  context: CommandContext,
  repoId: number,
  cause: GitEvent['data']['cause'],
  changes: readonly RefChange[],
  record: () => Promise<void>,
): Promise<RefOutcome> {
  const { retry } = context
  const named = retry && { retry: { namespace: retry.namespace, digest: retry.digest } }
  const moves: JournaledMoves = {
    ...journaledContext(context),
    ...named,
    repoId,
    cause,
    changes: [...changes],
  }
  const move = async () => {
    const outcome = await updateRefs(gitDirOf(services, repoId), changes)
    if (outcome === 'moved') await record()
    return outcome
  }
  return withMarker(services, repoId, move, JSON.stringify(moves))
}

/**
 * Records the journaled moves that git has and the log lacks, under the ref lock, before other comparisons of git with
 * the log. `namespace`: only those of the request with this one (`Retry`). @throws RepositoryMissing
 */
export async function recordJournaled(services: Services, repoId: number, namespace?: string): Promise<void> {
  for (const note of await services.pushJournal.notesOf(`${repoId}`)) {
    const moves = movesInNote(note)
    if (moves === undefined || (namespace !== undefined && moves.retry?.namespace !== namespace)) continue
    await recordMoves(services, moves)
  }
}

async function recordMoves(services: Services, moves: JournaledMoves): Promise<void> {
  const { repoId, changes, cause, ...by } = moves
  const { missing, revision } = await unrecordedMoves(services, repoId, changes)
  await recordRefs(services, { ...by, written: LOG_START }, repoId, cause, missing, revision)
}

/**
 * Returns the event by which an earlier attempt of the request moved refs for this cause. Records moves that the
 * attempt left in a marker. Call it under the ref lock, before git moves refs.
 */
export async function moveOfEarlierAttempt(
  services: Services,
  context: CommandContext,
  repoId: number,
  cause: GitEvent['data']['cause'],
): Promise<DomainEvent | undefined> {
  if (context.retry === undefined) return undefined
  await recordJournaled(services, repoId, context.retry.namespace)
  return earlierResult(services, context, gitStream(repoId), cause)
}
