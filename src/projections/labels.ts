/** Labels of repositories and organizations. */
import type { LabelScope, LabelSettings } from '../events/domain-events.ts'
import { type Fold, foldOf, readModel } from './read-model.ts'
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

export const labelFold: Fold<LabelDocument> = foldOf({
  collection: labels,
  version: 1,
  ids: ({ data }) => [`${data.id}`],
  becomes: {
    LabelCreated(_, { data, metadata: { at } }) {
      const { id, scope, name, color, description, exclusive, archived } = data
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
    },
    LabelDeleted: () => undefined,
  },
  onEveryChange: ({ metadata }) => ({ updatedAt: metadata.at }),
  changes: { LabelEdited: (_, { data }) => data.changes },
  derived: ({ name }) => ({ nameKey: name.toLowerCase() }),
})

export const labelModel = readModel(labelFold)
