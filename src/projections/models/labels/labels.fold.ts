/** Labels of repositories and organizations. */
import type { LabelScope, LabelSettings } from '../../../events/catalog/labels.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface LabelDocument extends LabelSettings {
  id: number
  scope: LabelScope
  /** Look-up key of a repository's or organization's labels. */
  scopeKey: string
  /** The name in lower case, for sorting. */
  nameKey: string
  createdAt: string
  updatedAt: string
}

export function scopeKey(scope: LabelScope): string {
  return scope.kind === 'repository' ? `repository-${scope.repoId}` : `organization-${scope.organizationId}`
}

export const labelFold: Fold<LabelDocument> = foldOf({
  name: 'labels',
  indexes: [{ scopeKey: 1, nameKey: 1, id: 1 }, { nameKey: 1 }],
  version: 2,
  staysUntilRemoved: true,
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
  begins: ['LabelCreated'],
  onEveryChange: ({ metadata }) => ({ updatedAt: metadata.at }),
  changes: { LabelEdited: (_, { data }) => data.changes },
  derived: ({ name }) => ({ nameKey: name.toLowerCase() }),
})
