/** Decides a user's own setting of the subscription to an issue. Pure. */

import type { SubscriptionEvent } from '../../events/catalog/notifications.ts'
import type { AccountRef, IssueRef } from '../../events/catalog/parts.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'

export interface SubscriptionState {
  /** Null without a setting. */
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

/** Sets the subscription; no event when it is set already. */
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

/** Ends a subscription; no event without one. */
export function decideEndSubscription(
  state: SubscriptionState,
  issue: IssueRef,
  user: AccountRef,
): Decision<SubscriptionEvent> {
  return state.subscribed === true ? decideSubscription(state, issue, user, false) : []
}
