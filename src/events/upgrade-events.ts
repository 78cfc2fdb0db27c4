/** What happened to the upgrades of the chain: `upgrade-chain`. All numbers are int64 in decimal digits. */

export interface UpgradePlan {
  /** Also the name under which the new version's handler is found. */
  name: string
  /** Block height at which the upgrade is to be done. */
  height: string
  /** For the operators of nodes: often where the new binary is. */
  info: string
}

export interface ModuleVersion {
  name: string
  /** Consensus version, uint64. */
  version: string
}

export type UpgradeEvent =
  /** Takes the place of a plan that was scheduled before. */
  | { type: 'PlanScheduled'; data: { plan: UpgradePlan } }
  | { type: 'PlanCanceled'; data: { name: string } }
  | { type: 'PlanApplied'; data: { name: string; height: string } }
  /** All modules that there are from now on, in the order of their names. */
  | { type: 'ModuleVersionsSet'; data: { moduleVersions: ModuleVersion[] } }
  | { type: 'AuthorityChanged'; data: { address: string } }
  /** `state` in base64, stored under the last height of the chain that ends. */
  | { type: 'ConsensusStateStored'; data: { lastHeight: string; state: string } }
