/** Gives a repository another owner or another name: the one place that exchanges the claims of one that exists. */

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

/** One at a time of each repository, on all nodes. */
const lockKeyOf = (repoId: number) => `place ${repoId}`

/** Frees a name that the repository has left, if a server died before it did so. */
export function releaseOldName(
  services: Services,
  context: CommandContext,
  repoId: number,
  left: { ownerId: number; name: string },
): Promise<void> {
  const key = claimKeys.repository(left.ownerId, left.name)
  return services.turns(lockKeyOf(repoId), async () => {
    const has = keysOf(await repositories.load(services, repoId)).includes(key)
    if (!has) await releaseClaim(services, context, key, repositoryStream(repoId))
  })
}

/**
 * Carries out a command that may change the owner or the name of a repository. The new name is claimed first, then the
 * event decides, then the old name is free. A crash leaves a claim too many, which can be taken over. Of one repository
 * one is moved at a time, on all nodes: none releases what another one has just claimed.
 *
 * @throws Refused: conflict when the name is taken, or when the repository is moved by another at the same time
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

  return services.turns(lockKeyOf(repoId), async () => {
    // Another attempt of a retried request may have moved it while this one waited.
    const done = await repositories.ifDone(services, context, repoId, step)
    if (done !== undefined) return done
    const before = await repositories.load(services, repoId)
    // A command that will be refused must not claim a name first.
    const foreseen = after(before, decide(before))
    const had = keysOf(before)
    const wanted = keysOf(foreseen)
    const claimed: string[] = []
    try {
      for (const { key, fork } of claimsOf(foreseen)) {
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
      // Nothing was recorded, so nobody relies on the claims. After any other failure it is not known.
      if (error instanceof Refused) await release(claimed)
      throw error
    }
  })
}
