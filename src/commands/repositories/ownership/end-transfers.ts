import type { AccountRef } from '../../../events/catalog/parts.ts'
import type { Services } from '../../../services/services.ts'
import { repositories } from '../../execution/aggregates.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { forEachSettled } from '../../execution/for-each-settled.ts'
import { decideForgetUser } from './ownership.decider.ts'

/** Ends the pending transfers to a deleted account, which cannot answer them. */
export async function endTransfersTo(
  services: Services,
  context: CommandContext,
  recipient: AccountRef,
): Promise<void> {
  await forEachSettled(await services.views.repositories.ids({ recipientId: recipient.id }), async (id) => {
    await repositories.change(services, context, Number(id), 'end transfer', (state) =>
      decideForgetUser(state, recipient),
    )
  })
}
