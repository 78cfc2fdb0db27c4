/** Moves refs for a command and records the moves, under the ref lock, with a marker against a crash in between. */

import type { GitEvent } from '../../events/catalog/branches.ts'
import type { BranchPoint } from '../../events/catalog/pull-requests.ts'
import type { ExpectedRevision } from '../../events/store/event-store.ts'
import type { RefChange, RefOutcome } from '../../git/refs/refs.ts'
import type { Services } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { moveJournaled, moveOfEarlierAttempt, withMarker } from './journaled-moves.ts'
import { recordRefs } from './record-refs.ts'
import { withRefLock } from './ref-lock.ts'

/**
 * Runs `work`, which moves and records refs, under the ref lock, so that the log has git's order. `since` is for
 * `recordRefs`. A crash or failure in between leaves a marker; the next recovery then records git's refs.
 */
export function moveRefs<T>(
  services: Pick<Services, 'config' | 'events' | 'runExclusive' | 'pushJournal'>,
  repoId: number,
  work: (since: ExpectedRevision) => Promise<T>,
): Promise<T> {
  return withRefLock(services, repoId, (since) => withMarker(services, repoId, () => work(since)))
}

/**
 * Creates, moves or deletes one ref if it has the expected value, and records that. A retried request whose first
 * attempt succeeded does nothing. `stale` and `name-conflict` as in `updateRefs`: nothing has moved. `requireAllowed`
 * checks the permission again under the lock, and throws when it has ended.
 */
export function changeRef(
  services: Services,
  context: CommandContext,
  repoId: number,
  cause: GitEvent['data']['cause'],
  change: RefChange,
  requireAllowed: () => Promise<unknown>,
): Promise<RefOutcome> {
  return withRefLock(services, repoId, async (since) => {
    await requireAllowed()
    // Before git moves the ref: the log accepts the event of a request only once.
    if (await moveOfEarlierAttempt(services, context, repoId, cause)) return 'moved'
    return moveJournaled(services, context, repoId, cause, [change], () =>
      recordRefs(services, context, repoId, cause, [change], since),
    )
  })
}

/** Deletes a branch if its tip is `sha`, and records that. Resolves to `stale` for another tip. */
export function removeBranch(
  services: Services,
  context: CommandContext,
  { repoId, branch, sha }: BranchPoint,
  requireAllowed: () => Promise<unknown>,
): Promise<RefOutcome> {
  const change = { ref: `refs/heads/${branch}`, from: sha, to: null }
  return changeRef(services, context, repoId, 'branch-deletion', change, requireAllowed)
}
