/** The module versions for the gRPC Query service: one document with all modules of the chain. */
import type { ModuleVersion } from '../events/upgrade-events.ts'
import { type Fold, foldOf, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface ModuleVersionsDocument {
  /** In the order of their names. */
  moduleVersions: ModuleVersion[]
}

export const moduleVersions: Collection<ModuleVersionsDocument> = {
  name: 'module_versions',
  indexes: [],
  arrays: [],
}

export const MODULE_VERSIONS_ID = 'chain'

export const moduleVersionsFold: Fold<ModuleVersionsDocument> = foldOf({
  collection: moduleVersions,
  version: 1,
  ids: () => [MODULE_VERSIONS_ID],
  becomes: { ModuleVersionsSet: (_, { data }) => data },
})

export const moduleVersionsModel = readModel(moduleVersionsFold)
