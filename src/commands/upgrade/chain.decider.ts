/** The aggregate of a chain's upgrades, by the rules of the upgrade module. Pure. */

import { refuse } from '../../errors/refusal.ts'
import type { ModuleVersion, UpgradeEvent, UpgradePlan } from '../../events/catalog/upgrade.ts'
import { isBelow, isPositive } from '../../events/int64.ts'
import { jsonBytes } from '../../events/store/append-size.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'

export interface ChainState {
  plan: UpgradePlan | null
  /** Heights of applied plans, by name. */
  applied: ReadonlyMap<string, string>
  moduleVersions: readonly ModuleVersion[]
  authority: string
  /** Consensus states in base64, by the chain's last height. */
  consensusStates: ReadonlyMap<string, string>
}

export const chainDecider: Decider<ChainState, UpgradeEvent> = deciderOf({
  initialState: {
    plan: null,
    applied: new Map(),
    moduleVersions: [],
    authority: '',
    consensusStates: new Map(),
  },
  snapshots: snapshots(),
  becomes: {
    PlanScheduled: (state, { data }) => ({ ...state, plan: data.plan }),
    PlanCanceled: (state) => ({ ...state, plan: null }),
    PlanApplied: (state, { data: { name, height } }) => ({
      ...state,
      plan: null,
      applied: new Map(state.applied).set(name, height),
    }),
    ModuleVersionsSet: (state, { data }) => ({ ...state, moduleVersions: data.moduleVersions }),
    AuthorityChanged: (state, { data }) => ({ ...state, authority: data.address }),
    ConsensusStateStored: (state, { data }) => ({
      ...state,
      consensusStates: new Map(state.consensusStates).set(data.lastHeight, data.state),
    }),
  },
})

/** Whether a text has a lone surrogate, which JSON can hold but UTF-8, and so protobuf, cannot. */
const hasLoneSurrogate = (text: string) => /\p{Surrogate}/u.test(text)
const loneSurrogateIn = (field: string) => refuse.unprocessable(`${field}: contains a lone surrogate`)

/** Schedules a plan. It replaces a scheduled one. */
export function decideSchedulePlan(state: ChainState, plan: UpgradePlan): Decision<UpgradeEvent> {
  if (plan.name === '') return refuse.unprocessable('name: must not be empty')
  if (hasLoneSurrogate(plan.name)) return loneSurrogateIn('name')
  if (hasLoneSurrogate(plan.info)) return loneSurrogateIn('info')
  if (!isPositive(plan.height)) return refuse.unprocessable('height: must be greater than 0')
  const height = state.applied.get(plan.name)
  if (height !== undefined) {
    return refuse.conflict(`name: the upgrade "${plan.name}" was applied at height ${height} already`)
  }
  return isSamePlan(state.plan, plan) ? [] : [{ type: 'PlanScheduled', data: { plan } }]
}

const isSamePlan = (a: UpgradePlan | null, b: UpgradePlan) =>
  a?.name === b.name && a.height === b.height && a.info === b.info

/** Cancels the scheduled plan. */
export function decideCancelPlan({ plan }: ChainState): Decision<UpgradeEvent> {
  if (plan === null) return refuse.notFound('no upgrade plan is scheduled')
  return [{ type: 'PlanCanceled', data: { name: plan.name } }]
}

/** Applies the scheduled plan, at `height` or at the plan's height, and clears it. */
export function decideApplyPlan({ plan }: ChainState, height = plan?.height): Decision<UpgradeEvent> {
  if (plan === null || height === undefined) return refuse.notFound('no upgrade plan is scheduled')
  if (isBelow(height, plan.height)) {
    return refuse.unprocessable(`height: the plan "${plan.name}" is for height ${plan.height}, not before`)
  }
  return [{ type: 'PlanApplied', data: { name: plan.name, height } }]
}

/** Maximum size of all names, in bytes: EventStoreDB and gRPC limit an event and an answer to 1 MiB. */
const MAX_NAMES_BYTES = 400_000

/** Replaces the list of module versions. */
export function decideSetModuleVersions(
  state: ChainState,
  moduleVersions: readonly ModuleVersion[],
): Decision<UpgradeEvent> {
  const names = new Set<string>()
  let bytes = 0
  for (const { name } of moduleVersions) {
    if (name === '') return refuse.unprocessable('module_versions: a name must not be empty')
    if (hasLoneSurrogate(name)) return loneSurrogateIn('module_versions: a name')
    if (names.has(name)) return refuse.unprocessable(`module_versions: "${name}" is named twice`)
    names.add(name)
    bytes += jsonBytes(name)
  }
  if (bytes > MAX_NAMES_BYTES) {
    return refuse.unprocessable(`module_versions: all names together are over ${MAX_NAMES_BYTES} bytes`)
  }
  const sorted = moduleVersions.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  if (isSameList(state.moduleVersions, sorted)) return []
  return [{ type: 'ModuleVersionsSet', data: { moduleVersions: sorted } }]
}

function isSameList(before: readonly ModuleVersion[], after: readonly ModuleVersion[]): boolean {
  const same = ({ name, version }: ModuleVersion, i: number) =>
    before[i]?.name === name && before[i].version === version
  return before.length === after.length && after.every(same)
}

/** Sets the account that may perform upgrades. */
export function decideChangeAuthority(state: ChainState, address: string): Decision<UpgradeEvent> {
  if (address === '') return refuse.unprocessable('address: must not be empty')
  if (hasLoneSurrogate(address)) return loneSurrogateIn('address')
  return state.authority === address ? [] : [{ type: 'AuthorityChanged', data: { address } }]
}

/** Stores the consensus state, in base64, with which the next chain starts. */
export function decideStoreConsensusState(
  state: ChainState,
  lastHeight: string,
  consensusState: string,
): Decision<UpgradeEvent> {
  if (!isPositive(lastHeight)) return refuse.unprocessable('last_height: must be greater than 0')
  if (state.consensusStates.get(lastHeight) === consensusState) return []
  return [{ type: 'ConsensusStateStored', data: { lastHeight, state: consensusState } }]
}
