/** At most one unmerged pull request for a head and a base: create rule 4, edit rule 6. A claim decides. */
import { claimKeys } from '../../events/streams.ts'
import { type Refusal, Refused, refuse } from '../../refusal.ts'
import type { Services } from '../../services.ts'
import { type Claim, claimHolder } from '../claims.ts'
import { type CommandContext, load } from '../execute.ts'
import { pullDecider } from './pull-request.ts'

/** The claim of a pull request to its head and base. It keeps the claim until it is merged. */
export function headBaseClaim({ events }: Services, key: string): Pick<Claim, 'key' | 'stillHolds'> {
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
export async function refuseDuplicate(
  services: Services,
  context: CommandContext,
  key: string,
): Promise<void> {
  const twin = await claimHolder(services.events, context, headBaseClaim(services, key))
  if (twin !== undefined) throw new Refused(duplicateRefusal(twin))
}

/** The refusal of a duplicate. It names the pull request that exists already. */
export function duplicateRefusal(holder: string): Refusal {
  const number = holder.slice(holder.indexOf('.') + 1)
  return refuse.conflict(`pull request #${number} with the same head and base is not merged yet`)
}
