/** Whether a user hears of an issue, as the user said. Pure. */

import type { SubscriptionEvent } from '../../events/catalog/notifications.ts'
import type { AccountRef, IssueRef } from '../../events/catalog/parts.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'

export interface SubscriptionState {
  /** Null: the user has said nothing. */
  subscribed: boolean | null
}

export const subscriptionDecider: Decider<SubscriptionState, SubscriptionEvent> = deciderOf({
  initialState: { subscribed: null },
  snapshots: snapshots(),
  becomes: {
    IssueSubscribed: () => ({ subscribed: true }),
    IssueUnsubscribed: () => ({ subscribed: false }),
  },
})

/** No event when the user has said so already. */
export function decideSubscription(
  { subscribed }: SubscriptionState,
  { repoId, index }: IssueRef,
  user: AccountRef,
  wanted: boolean,
): Decision<SubscriptionEvent> {
  if (subscribed === wanted) return []
  const data = { repoId, index, user }
  return [wanted ? { type: 'IssueSubscribed', data } : { type: 'IssueUnsubscribed', data }]
}

/** Ends a subscription; no event when there is none. */
export function decideEndSubscription(
  state: SubscriptionState,
  issue: IssueRef,
  user: AccountRef,
): Decision<SubscriptionEvent> {
  return state.subscribed === true ? decideSubscription(state, issue, user, false) : []
}
