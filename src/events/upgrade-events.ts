/** The events about upgrades of the blockchain, in the stream `upgrade-chain`. Numbers are int64 as decimal strings. */

export interface UpgradePlan {
  /** The new version finds its upgrade handler by this name. */
  name: string
  /** The block height at which the upgrade takes place. */
  height: string
  /** A note for the operators of nodes, often the address of the new binary. */
  info: string
}

export interface ModuleVersion {
  name: string
  /** Consensus version, uint64. */
  version: string
}

export type UpgradeEvent =
  /** Replaces a plan that was scheduled before. */
  | { type: 'PlanScheduled'; data: { plan: UpgradePlan } }
  | { type: 'PlanCanceled'; data: { name: string } }
  | { type: 'PlanApplied'; data: { name: string; height: string } }
  /** The complete new list of modules, in the order of their names. */
  | { type: 'ModuleVersionsSet'; data: { moduleVersions: ModuleVersion[] } }
  | { type: 'AuthorityChanged'; data: { address: string } }
  /** `state` is base64. It is stored under the last height of the chain that ends. */
  | { type: 'ConsensusStateStored'; data: { lastHeight: string; state: string } }
