/** Moves refs for a command, and records the moves: in the turn of the repository, with a marker for a crash between. */

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
 * Runs `work`, which moves refs of a repository and records the moves. It waits for its turn with pushes, so that the log
 * has the moves of a branch in git's order; `since` is for `recordRefs`. A crash or a failure between the two leaves a
 * marker: the next recovery then records the refs that git has.
 */
export function moveRefs<T>(
  services: Pick<Services, 'config' | 'events' | 'turns' | 'pushJournal'>,
  repoId: number,
  work: (since: ExpectedRevision) => Promise<T>,
): Promise<T> {
  return withRefLock(services, repoId, (since) => withMarker(services, repoId, () => work(since)))
}

/**
 * Makes, moves or deletes one ref if it is where the change expects it, and records that. A retried request whose first
 * attempt did it finds it done, and does nothing, whatever happened to the ref since. `stale` and `name-conflict` as in
 * `updateRefs`: nothing moved then. Rights may end and rules may change while the request waits for its turn:
 * `requireAllowed` decides again when the turn has come, and throws when the ref must not move any more.
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
    // Before git moves anything: the log takes the event of a request only once.
    if (await moveOfEarlierAttempt(services, context, repoId, cause)) return 'moved'
    return moveJournaled(services, context, repoId, cause, [change], () =>
      recordRefs(services, context, repoId, cause, [change], since),
    )
  })
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
