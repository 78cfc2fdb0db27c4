/** Upgrade plans for the gRPC Query service: the scheduled plan, and the applied ones. */
import type { UpgradePlan } from '../../../events/catalog/upgrade.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export type UpgradePlanDocument =
  | ({ state: 'scheduled' } & UpgradePlan)
  /** `height` is the height at which the plan was applied. */
  | { state: 'applied'; name: string; height: string }

const SCHEDULED = 'scheduled'
const appliedId = (name: string) => `applied-${name}`

export const upgradePlanFold: Fold<UpgradePlanDocument> = foldOf({
  name: 'upgrade_plans',
  version: 1,
  ids: ({ data }) => ('height' in data ? [SCHEDULED, appliedId(data.name)] : [SCHEDULED]),
  becomes: {
    PlanScheduled: (_, { data }) => ({ state: 'scheduled', ...data.plan }),
    PlanCanceled: () => undefined,
    PlanApplied: (_, { data }, id) => (id === SCHEDULED ? undefined : { state: 'applied', ...data }),
  },
})

export const upgradePlans = upgradePlanFold.collection
