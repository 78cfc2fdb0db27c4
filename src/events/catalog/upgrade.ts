/** Upgrades of the blockchain, in the stream `upgrade-chain`. Numbers are int64 as decimal strings. */
import { type Static, Type } from 'typebox'
import { type EventsOf, Text } from './parts.ts'

const UpgradePlan = Type.Object({
  /** The new version finds its upgrade handler by this name. */
  name: Text,
  /** The block height at which the upgrade takes place. */
  height: Text,
  /** A note for node operators, often the address of the new binary. */
  info: Text,
})
export type UpgradePlan = Static<typeof UpgradePlan>

const ModuleVersion = Type.Object({
  name: Text,
  /** Consensus version, uint64. */
  version: Text,
})
export type ModuleVersion = Static<typeof ModuleVersion>

export const upgradeEvents = {
  /** Replaces a plan that was scheduled before. */
  PlanScheduled: Type.Object({ plan: UpgradePlan }),
  PlanCanceled: Type.Object({ name: Text }),
  PlanApplied: Type.Object({ name: Text, height: Text }),
  /** The complete new list of modules, in the order of their names. */
  ModuleVersionsSet: Type.Object({ moduleVersions: Type.Array(ModuleVersion) }),
  AuthorityChanged: Type.Object({ address: Text }),
  /** `state` is base64. It is stored under the last height of the chain that ends. */
  ConsensusStateStored: Type.Object({ lastHeight: Text, state: Text }),
}
export type UpgradeEvent = EventsOf<typeof upgradeEvents>
