/**
 * Events that change documents of a repository but are not in its history: which issues its texts and those of other
 * repositories name, and its forks. A past moment of the repository reads them besides its history.
 */
import type { Position } from '../../../events/store/event-store.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface LinkedEventDocument {
  repoId: number
  position: Position
}

const idOf = (repoId: number, position: Position) => `${repoId}.${position}`

export const linkedEventFold: Fold<LinkedEventDocument> = foldOf({
  name: 'linked_events',
  indexes: [{ repoId: 1, position: 1 }],
  version: 1,
  staysUntilRemoved: true,
  ids({ type, position, data }) {
    if (type === 'ReferencesRecorded') {
      const named = data.references.map(({ issue }) => issue.repoId)
      return [...new Set([data.repoId, ...named])].map((repoId) => idOf(repoId, position))
    }
    const parentId = type === 'RepositoryCreated' ? data.parent?.repoId : data.parentId
    return parentId === undefined || parentId === null ? [] : [idOf(parentId, position)]
  },
  becomes: {
    ReferencesRecorded: (_, { position }, id) => ({ repoId: Number.parseInt(id, 10), position }),
    RepositoryCreated: (_, { position }, id) => ({ repoId: Number.parseInt(id, 10), position }),
    RepositoryDeleted: (_, { position }, id) => ({ repoId: Number.parseInt(id, 10), position }),
  },
  begins: ['ReferencesRecorded', 'RepositoryCreated', 'RepositoryDeleted'],
  creates: ['ReferencesRecorded', 'RepositoryCreated', 'RepositoryDeleted'],
})
