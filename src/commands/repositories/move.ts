/** Renames or transfers a repository: the only commands that exchange the claims of an existing repository. */

import { contended, isRefusal, Refused } from '../../errors/refusal.ts'
import { claimKeys, repositoryStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'
import { repositories } from '../execution/aggregates.ts'
import { releaseClaim } from '../execution/claims.ts'
import type { CommandContext } from '../execution/command-context.ts'
import type { Decision } from '../execution/decider.ts'
import { claimRepositoryName } from './creation/create.ts'
import { claimFork } from './creation/fork.ts'
import { type RepositoryEvent, type RepositoryState, repositoryDecider } from './repository.decider.ts'
import { claimsOf, keysOf } from './repository-claims.ts'

function after(state: RepositoryState, decision: Decision<RepositoryEvent>): RepositoryState {
  if (isRefusal(decision)) throw new Refused(decision)
  return decision.reduce((next, event) => repositoryDecider.evolve(next, event), state)
}

/** Lock of a repository's moves, on all nodes. */
const lockKeyOf = (repoId: number) => `place ${repoId}`

/** Releases the claim of a former name, if a crash left it. */
export function releaseOldName(
  services: Services,
  context: CommandContext,
  repoId: number,
  left: { ownerId: number; name: string },
): Promise<void> {
  const key = claimKeys.repository(left.ownerId, left.name)
  return services.runExclusive(lockKeyOf(repoId), async () => {
    const has = keysOf(await repositories.load(services, repoId)).includes(key)
    if (!has) await releaseClaim(services, context, key, repositoryStream(repoId))
  })
}

/**
 * Applies a command that may change owner or name, under a lock on all nodes: claims the new name, appends the event,
 * releases the old name. A crash leaves an extra claim, which can be taken over. @throws Refused (conflict) when the
 * name is taken, or under concurrent moves
 */
export function moveRepository(
  services: Services,
  context: CommandContext,
  repoId: number,
  step: string,
  decide: (state: RepositoryState) => Decision<RepositoryEvent>,
): Promise<RepositoryState> {
  const stream = repositoryStream(repoId)
  const release = (keys: readonly string[]) =>
    Promise.all(keys.map((key) => releaseClaim(services, context, key, stream)))

  return services.runExclusive(lockKeyOf(repoId), async () => {
    // Another attempt of a retried request may have moved it meanwhile.
    const done = await repositories.ifDone(services, context, repoId, step)
    if (done !== undefined) return done
    const before = await repositories.load(services, repoId)
    // Claim nothing for a command that will be refused.
    const expected = after(before, decide(before))
    const had = keysOf(before)
    const wanted = keysOf(expected)
    const claimed: string[] = []
    try {
      for (const { key, fork } of claimsOf(expected)) {
        if (had.includes(key)) continue
        if (fork === undefined) await claimRepositoryName(services, context, key, stream)
        else await claimFork(services, context, fork, stream)
        claimed.push(key)
      }
      const moved = await repositories.change(services, context, repoId, step, (state) => {
        const decision = decide(state)
        return keysOf(after(state, decision)).join() === wanted.join() ? decision : contended
      })
      await release(had.filter((key) => !wanted.includes(key)))
      return moved
    } catch (error) {
      // After a refusal nothing is recorded, so the claims are unused. After other failures this is unknown.
      if (error instanceof Refused) await release(claimed)
      throw error
    }
  })
}
