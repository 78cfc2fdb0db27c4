/** Compares the state of a chain's gateway with the log, and decides the events for the difference. Pure. */
import type { Decision } from '../../commands/execution/decider.ts'
import {
  type ChainState,
  chainDecider,
  decideApplyPlan,
  decideCancelPlan,
  decideChangeAuthority,
  decideSchedulePlan,
  decideSetModuleVersions,
} from '../../commands/upgrade/chain.decider.ts'
import { isRefusal } from '../../errors/refusal.ts'
import type { ModuleVersion, UpgradeEvent, UpgradePlan } from '../../events/catalog/upgrade.ts'
import { isBelow, isPositive } from '../../events/int64.ts'

/** The answers of a chain's gateway in one round. */
export interface Observed {
  /** The plan that is scheduled on the chain. */
  plan: UpgradePlan | null
  /**
   * Present when the plan in the log is no longer scheduled on the chain: the height at which that plan was applied, or
   * `0` when it was not applied.
   */
  applied?: { name: string; height: string }
  /** Absent when the chain doesn't have the method. */
  moduleVersions?: readonly ModuleVersion[]
  /** Absent when the chain doesn't have the method. */
  authority?: string
}

export interface ChangesSeen {
  /** Events for one append, so that the log never has half of a round. */
  events: readonly UpgradeEvent[]
  /** The reasons why parts of the answers cannot be recorded. The other parts are recorded. */
  refused: readonly string[]
}

/** Returns the events that bring the log up to date with the chain; empty without a difference. */
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
    // The log has received another plan since the query. The next round handles it.
    if (applied?.name !== state.plan.name) return { events, refused }
    if (isPositive(applied.height)) {
      const { height } = applied
      // The plan was moved to an earlier height between two rounds: record the height that the chain reports.
      const moved = isBelow(height, state.plan.height)
      if (moved) decide('current_plan', decideSchedulePlan(now, { ...state.plan, height }))
      decide('applied_plan', decideApplyPlan(now, height))
    }
  }
  if (plan !== null) decide('current_plan', decideSchedulePlan(now, plan))
  // Also cancel when the replacement was refused: the chain will not run the old plan.
  if (now.plan !== null && now.plan.name !== plan?.name) decide('current_plan', decideCancelPlan(now))
  if (moduleVersions !== undefined) {
    decide('module_versions', decideSetModuleVersions(now, moduleVersions))
  }
  if (authority !== undefined && authority !== now.authority) {
    decide('authority', decideChangeAuthority(now, authority))
  }
  return { events, refused }
}
