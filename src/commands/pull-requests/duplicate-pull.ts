/** At most one open pull request for a head and a base: `pulls.create.4`, `pulls.edit.6`. A claim decides. */

import { coded, Refused, refuse } from '../../errors/refusal.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import { claimKeys, pullStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'
import { pulls } from '../execution/aggregates.ts'
import { type Claim, claimHolder, releaseClaim, takeClaim } from '../execution/claims.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { load } from '../execution/load.ts'
import { type ActivePull, type PullState, pullDecider } from './pull-request.decider.ts'

/** The key that a pull request holds: only an open one holds one. */
const keyOf = (state: PullState): string | undefined =>
  state.status === 'open' ? claimKeys.pull(state.head, state.base) : undefined

/** The key that a pull request needs to be opened again; undefined when nothing opens it. */
export const keyWhenOpened = (pull: ActivePull, closed: boolean): string | undefined =>
  pull.status === 'closed' && !closed ? claimKeys.pull(pull.head, pull.base) : undefined

/** The claim of a pull request to its head and base. It keeps the claim until it is closed or merged. */
function headBaseClaim(services: Services, key: string): Pick<Claim, 'key' | 'stillHolds'> {
  return {
    key,
    async stillHolds(holder) {
      const { state } = await load(services, holder, pullDecider)
      return keyOf(state) === key
    },
  }
}

/** Refuses a duplicate before it takes a number; only `takeClaim` decides. @throws Refused (conflict) */
export async function refuseDuplicate(services: Services, key: string): Promise<void> {
  const twin = await claimHolder(services, headBaseClaim(services, key))
  if (twin !== undefined) throw duplicateOf(twin)
}

/** Claims a head and a base for the pull request in a stream. @throws Refused (conflict) for a duplicate */
export async function claimHeadBase(
  services: Services,
  context: CommandContext,
  key: string,
  holder: string,
): Promise<void> {
  const claimed = await takeClaim(services, context, { ...headBaseClaim(services, key), holder })
  if (!claimed.taken) throw duplicateOf(claimed.holder)
}

/** Whether a change was refused because another open pull request has the same head and base. */
export const isDuplicate = (error: unknown): error is Refused =>
  error instanceof Refused && error.refusal.code === 'pull_request_exists'

/** The refusal of a duplicate. It names the pull request that exists already. */
function duplicateOf(holder: string): Refused {
  const number = holder.slice(holder.indexOf('.') + 1)
  return new Refused(
    coded(
      'pull_request_exists',
      refuse.conflict(`pull request #${number} with the same head and base is open already`),
    ),
  )
}

/**
 * Carries out a change that opens or closes a pull request, or gives it another head or base. The key that it needs after the
 * change is claimed before it, and each key that it does not need any more is released after it. One such change of a pull
 * request at a time, on all nodes: another one could release the claim that this one relies on.
 *
 * `keyAfter`: the key that the change needs; undefined when it needs none, or only the one that the pull request has.
 *
 * @throws Refused (conflict) for a duplicate, and what the others throw
 */
export async function changeClaiming(
  services: Services,
  context: CommandContext,
  pull: IssueRef,
  keyAfter: (state: ActivePull) => Promise<string | undefined> | string | undefined,
  change: () => Promise<unknown>,
): Promise<void> {
  const stream = pullStream(pull.repoId, pull.index)
  await services.turns(`edit ${stream}`, async () => {
    const before = await pulls.load(services, pull)
    if (before.status === 'none') {
      await change()
      return
    }
    const needed = await keyAfter(before)
    if (needed !== undefined) await claimHeadBase(services, context, needed, stream)
    try {
      await change()
    } catch (error) {
      // A refusal has changed nothing, so what was claimed is released. After another failure the change may have been
      // recorded: then the grace period of the claims decides.
      if (error instanceof Refused && needed !== undefined) await release(needed)
      throw error
    }
    // An earlier attempt that was cut off may have closed it, and not released its key.
    await release(claimKeys.pull(before.head, before.base))
    if (needed !== undefined) await release(needed)
  })

  async function release(key: string): Promise<void> {
    const isNeeded = async () => keyOf(await pulls.load(services, pull)) === key
    await releaseClaim(services, context, key, stream, isNeeded)
  }
}
