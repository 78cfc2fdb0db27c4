/** Upgrade plans for the gRPC Query service: the scheduled plan, and the applied ones. */
import type { UpgradePlan } from '../events/upgrade-events.ts'
import { type Fold, foldOf, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export type UpgradePlanDocument =
  | ({ state: 'scheduled' } & UpgradePlan)
  /** `height` is the height at which the plan was applied. */
  | { state: 'applied'; name: string; height: string }

export const upgradePlans: Collection<UpgradePlanDocument> = {
  name: 'upgrade_plans',
  indexes: [],
  arrays: [],
}

const SCHEDULED = 'scheduled'
const appliedId = (name: string) => `applied-${name}`

export const upgradePlanFold: Fold<UpgradePlanDocument> = foldOf({
  collection: upgradePlans,
  version: 1,
  ids: ({ data }) => ('height' in data ? [SCHEDULED, appliedId(data.name)] : [SCHEDULED]),
  becomes: {
    PlanScheduled: (_, { data }) => ({ state: 'scheduled', ...data.plan }),
    PlanCanceled: () => undefined,
    PlanApplied: (_, { data }, id) => (id === SCHEDULED ? undefined : { state: 'applied', ...data }),
  },
})

export const upgradePlanModel = readModel(upgradePlanFold)
