/** Labels of repositories and organizations. */
import type { LabelScope, LabelSettings } from '../events/domain-events.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface LabelDocument extends LabelSettings {
  id: number
  scope: LabelScope
  /** What all labels of one repository or organization are found by. */
  scopeKey: string
  /** In lower case: what lists are sorted by. */
  nameKey: string
  createdAt: string
  updatedAt: string
}

export const labels: Collection<LabelDocument> = {
  name: 'labels',
  indexes: [
    [
      ['scopeKey', 1],
      ['nameKey', 1],
      ['id', 1],
    ],
    [['nameKey', 1]],
  ],
  arrays: [],
}

export function scopeKey(scope: LabelScope): string {
  return scope.kind === 'repository' ? `repository-${scope.repoId}` : `organization-${scope.organizationId}`
}

export const labelFold: Fold<LabelDocument> = {
  collection: labels,
  version: 1,
  touches(event) {
    switch (event.type) {
      case 'LabelCreated':
      case 'LabelEdited':
      case 'LabelDeleted':
        return [`${event.data.id}`]
      default:
        return []
    }
  },
  evolve(label, event) {
    const { at } = event.metadata
    if (event.type === 'LabelCreated') {
      const { id, scope, name, color, description, exclusive, archived } = event.data
      return {
        id,
        scope,
        scopeKey: scopeKey(scope),
        name,
        nameKey: name.toLowerCase(),
        color,
        description,
        exclusive,
        archived,
        createdAt: at,
        updatedAt: at,
      }
    }
    if (label === undefined) return undefined
    switch (event.type) {
      case 'LabelEdited': {
        const edited = { ...label, ...event.data.changes, updatedAt: at }
        return { ...edited, nameKey: edited.name.toLowerCase() }
      }
      case 'LabelDeleted':
        return undefined
      default:
        return label
    }
  },
}

export const labelModel = readModel(labelFold)
