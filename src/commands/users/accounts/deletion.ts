/**
 * Prevents new repositories, transfers and memberships of an account that is being deleted. The deletion takes a claim
 * and then looks for those; their creation records them and then looks for the claim. So one of the two sees the other.
 * When the creation crashes before it looks, a process removes them (`src/processes/users/deleted-users.ts`).
 */
import type { AccountKind } from '../../../events/catalog/organizations.ts'
import { claimKeys, organizationStream, userStream } from '../../../events/streams.ts'
import type { WriteServices } from '../../../services/services.ts'
import { organizations, users } from '../../execution/aggregates.ts'
import { claimHolder, releaseClaim, takeClaim } from '../../execution/claims.ts'
import type { CommandContext } from '../../execution/command-context.ts'

interface Account {
  id: number
  kind: AccountKind
}

const deletionOf = (services: WriteServices, { id, kind }: Account) => ({
  key: claimKeys.deletion(id),
  holder: (kind === 'user' ? userStream : organizationStream)(id),
  stillHolds: async () =>
    (await (kind === 'user' ? users : organizations).load(services, id)).status === 'deleted',
})

/** Returns whether the account is being deleted, or is deleted. */
export async function isBeingDeleted(services: WriteServices, account: Account): Promise<boolean> {
  return (await claimHolder(services, deletionOf(services, account))) !== undefined
}

/** Runs `work`, which deletes the account, under that claim. Releases the claim on failure. */
export async function whileDeleting(
  services: WriteServices,
  context: CommandContext,
  account: Account,
  work: () => Promise<void>,
): Promise<void> {
  const claim = deletionOf(services, account)
  await takeClaim(services, context, claim)
  try {
    await work()
  } catch (error) {
    if (!(await claim.stillHolds())) await releaseClaim(services, context, claim.key, claim.holder)
    throw error
  }
}
