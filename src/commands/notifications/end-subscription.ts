/** Ends the subscription of a user who has lost access to the issue. */
import type { ParticipationDocument } from '../../projections/models/notifications/participations.fold.ts'
import type { Services } from '../../services/services.ts'
import { subscriptions } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { decideEndSubscription } from './subscription.decider.ts'

export async function endSubscription(
  services: Services,
  context: CommandContext,
  of: ParticipationDocument,
): Promise<void> {
  const account = await services.views.accounts.get(`${of.userId}`)
  if (account === undefined) return
  const user = { id: account.id, login: account.login }
  await subscriptions.change(services, context, of, 'end subscription', (state) =>
    decideEndSubscription(state, of, user),
  )
}
