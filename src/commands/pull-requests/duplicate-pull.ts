/** Allows one open pull request per head and base, by a claim: `pulls.create.4`, `pulls.edit.6`. */

import { coded, Refused, refuse } from '../../errors/refusal.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import { claimKeys, pullStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'
import { pulls } from '../execution/aggregates.ts'
import { type Claim, claimHolder, releaseClaim, takeClaim } from '../execution/claims.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { load } from '../execution/load.ts'
import { type ActivePull, type PullState, pullDecider } from './pull-request.decider.ts'

/** Returns the key that a pull request holds while it is open. */
const keyOf = (state: PullState): string | undefined =>
  state.status === 'open' ? claimKeys.pull(state.head, state.base) : undefined

/** Returns the key needed to reopen a pull request; undefined when the edit does not reopen it. */
export const keyWhenOpened = (pull: ActivePull, closed: boolean): string | undefined =>
  pull.status === 'closed' && !closed ? claimKeys.pull(pull.head, pull.base) : undefined

/** Returns the claim of a head and base, held until the pull request is closed or merged. */
function headBaseClaim(services: Services, key: string): Pick<Claim, 'key' | 'stillHolds'> {
  return {
    key,
    async stillHolds(holder) {
      const { state } = await load(services, holder, pullDecider)
      return keyOf(state) === key
    },
  }
}

/** Refuses a duplicate before it takes a number. Only `takeClaim` is authoritative. @throws Refused (conflict) */
export async function refuseDuplicate(services: Services, key: string): Promise<void> {
  const twin = await claimHolder(services, headBaseClaim(services, key))
  if (twin !== undefined) throw duplicateOf(twin)
}

/** Claims a head and base for the pull request of a stream. @throws Refused (conflict) for a duplicate */
export async function claimHeadBase(
  services: Services,
  context: CommandContext,
  key: string,
  holder: string,
): Promise<void> {
  const claimed = await takeClaim(services, context, { ...headBaseClaim(services, key), holder })
  if (!claimed.taken) throw duplicateOf(claimed.holder)
}

/** Returns whether a change was refused as a duplicate. */
export const isDuplicate = (error: unknown): error is Refused =>
  error instanceof Refused && error.refusal.code === 'pull_request_exists'

/** Returns the refusal of a duplicate, which names the existing pull request. */
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
 * Applies a change that opens or closes a pull request, or changes its head or base. Claims the key that it needs
 * before the change, and releases keys that it does not need after it. Runs under a lock on all nodes, since a
 * concurrent change could release the claim.
 *
 * `keyAfter`: returns the key that the change needs; undefined when it needs no new key.
 * @throws Refused (conflict) for a duplicate, and errors of the callbacks
 */
export async function changeClaiming(
  services: Services,
  context: CommandContext,
  pull: IssueRef,
  keyAfter: (state: ActivePull) => Promise<string | undefined> | string | undefined,
  change: () => Promise<unknown>,
): Promise<void> {
  const stream = pullStream(pull.repoId, pull.index)
  await services.runExclusive(`edit ${stream}`, async () => {
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
      // A refusal has changed nothing, so the claim is released. After another failure the change may be recorded: then
      // the claim's grace period decides.
      if (error instanceof Refused && needed !== undefined) await release(needed)
      throw error
    }
    // An interrupted earlier attempt may have closed it without releasing its key.
    await release(claimKeys.pull(before.head, before.base))
    if (needed !== undefined) await release(needed)
  })

  async function release(key: string): Promise<void> {
    const isNeeded = async () => keyOf(await pulls.load(services, pull)) === key
    await releaseClaim(services, context, key, stream, isNeeded)
  }
}
