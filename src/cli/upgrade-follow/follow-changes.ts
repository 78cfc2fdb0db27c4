/** What a chain shows against what the log says of it: which events make the two agree. Pure. */

import type { Decision } from '../../commands/execute.ts'
import {
  type ChainState,
  chainDecider,
  decideApplyPlan,
  decideCancelPlan,
  decideChangeAuthority,
  decideSchedulePlan,
  decideSetModuleVersions,
} from '../../commands/upgrade/chain.ts'
import { isBelow, isPositive } from '../../events/int64.ts'
import type { ModuleVersion, UpgradeEvent, UpgradePlan } from '../../events/upgrade-events.ts'
import { isRefusal } from '../../refusal.ts'

/** What a chain's gateway showed in one round. */
export interface Observed {
  /** The plan that is scheduled there. */
  plan: UpgradePlan | null
  /** Of the plan that the log has and the chain has no more: the height at which it was applied, or `0`. */
  applied?: { name: string; height: string }
  /** Absent on chains that do not tell. */
  moduleVersions?: readonly ModuleVersion[]
  /** Absent on chains that do not tell. */
  authority?: string
}

export interface ChangesSeen {
  /** All for one append: half of a round is never in the log. */
  events: readonly UpgradeEvent[]
  /** Why what the chain shows can not be recorded, a line for each part. The other parts can. */
  refused: readonly string[]
}

/** The events that bring the log to where the chain is; none when it is there. */
export function changesOf(state: ChainState, seen: Observed): ChangesSeen {
  const events: UpgradeEvent[] = []
  const refused: string[] = []
  let now = state
  const decide = (what: string, decision: Decision<UpgradeEvent>) => {
    if (isRefusal(decision)) return void refused.push(`${what}: ${decision.message}`)
    events.push(...decision)
    now = decision.reduce((before, event) => chainDecider.evolve(before, event), now)
  }

  const { plan, applied, moduleVersions, authority } = seen
  if (state.plan !== null && state.plan.name !== plan?.name) {
    // Another plan was scheduled here since the chain was asked: the next round asks what became of it.
    if (applied?.name !== state.plan.name) return { events, refused }
    if (isPositive(applied.height)) {
      const { height } = applied
      // Moved to an earlier height between two rounds: where it was applied is what the chain says.
      const moved = isBelow(height, state.plan.height)
      if (moved) decide('current_plan', decideSchedulePlan(now, { ...state.plan, height }))
      decide('applied_plan', decideApplyPlan(now, height))
    }
  }
  if (plan !== null) decide('current_plan', decideSchedulePlan(now, plan))
  // Also when what took its place was refused: it is not what the chain will do.
  if (now.plan !== null && now.plan.name !== plan?.name) decide('current_plan', decideCancelPlan(now))
  if (moduleVersions !== undefined) {
    decide('module_versions', decideSetModuleVersions(now, moduleVersions))
  }
  if (authority !== undefined && authority !== now.authority) {
    decide('authority', decideChangeAuthority(now, authority))
  }
  return { events, refused }
}
