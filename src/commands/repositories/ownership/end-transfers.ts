import type { AccountRef } from '../../../events/catalog/parts.ts'
import type { Services } from '../../../services/services.ts'
import { repositories } from '../../execution/aggregates.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { forEachSettled } from '../../execution/for-each-settled.ts'
import { decideForgetUser } from './ownership.decider.ts'

/** Ends the transfers that wait for an account that is gone: nobody can accept or reject them any more. */
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
