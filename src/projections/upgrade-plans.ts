/** The plan store of the Query service: the plan that is scheduled, and those that were applied. */
import type { UpgradePlan } from '../events/upgrade-events.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export type UpgradePlanDocument =
  | ({ state: 'scheduled' } & UpgradePlan)
  /** With the height at which it was applied. */
  | { state: 'applied'; name: string; height: string }

export const upgradePlans: Collection<UpgradePlanDocument> = {
  name: 'upgrade_plans',
  indexes: [],
  arrays: [],
}

const SCHEDULED = 'scheduled'
const appliedId = (name: string) => `applied-${name}`

export const upgradePlanFold: Fold<UpgradePlanDocument> = {
  collection: upgradePlans,
  version: 1,
  touches(event) {
    switch (event.type) {
      case 'PlanScheduled':
      case 'PlanCanceled':
        return [SCHEDULED]
      case 'PlanApplied':
        return [SCHEDULED, appliedId(event.data.name)]
      default:
        return []
    }
  },
  evolve(document, event, id) {
    switch (event.type) {
      case 'PlanScheduled':
        return { state: 'scheduled', ...event.data.plan }
      case 'PlanCanceled':
        return undefined
      case 'PlanApplied':
        return id === SCHEDULED ? undefined : { state: 'applied', ...event.data }
      default:
        return document
    }
  },
}

export const upgradePlanModel = readModel(upgradePlanFold)
