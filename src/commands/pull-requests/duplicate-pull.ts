/** At most one unmerged pull request for a head and a base: create rule 4, edit rule 6. A claim decides. */
import { claimKeys } from '../../events/streams.ts'
import { Refused, refuse } from '../../refusal.ts'
import type { Services } from '../../services.ts'
import { type Claim, claimHolder, takeClaim } from '../claims.ts'
import type { CommandContext } from '../execute.ts'
import { load } from '../load.ts'
import { pullDecider } from './pull-request.ts'

/** The claim of a pull request to its head and base. It keeps the claim until it is merged. */
function headBaseClaim({ events }: Services, key: string): Pick<Claim, 'key' | 'stillHolds'> {
  return {
    key,
    async stillHolds(holder) {
      const { state } = await load(events, holder, pullDecider)
      if (state.status === 'none' || state.status === 'merged') return false
      return claimKeys.pull(state.head, state.base) === key
    },
  }
}

/** Refuses a duplicate before it takes a number; only `takeClaim` decides. @throws Refused (conflict) */
export async function refuseDuplicate(services: Services, key: string): Promise<void> {
  const twin = await claimHolder(services.events, headBaseClaim(services, key))
  if (twin !== undefined) throw duplicateOf(twin)
}

/** Claims a head and a base for the pull request in a stream. @throws Refused (conflict) for a duplicate */
export async function claimHeadBase(
  services: Services,
  context: CommandContext,
  key: string,
  holder: string,
): Promise<void> {
  const claimed = await takeClaim(services.events, context, { ...headBaseClaim(services, key), holder })
  if (!claimed.taken) throw duplicateOf(claimed.holder)
}

/** The refusal of a duplicate. It names the pull request that exists already. */
function duplicateOf(holder: string): Refused {
  const number = holder.slice(holder.indexOf('.') + 1)
  return new Refused(refuse.conflict(`pull request #${number} with the same head and base is not merged yet`))
}
