/** The module-version store of the Query service: one document with all modules of the chain. */
import type { ModuleVersion } from '../events/upgrade-events.ts'
import { type Fold, readModel } from './read-model.ts'
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

export const moduleVersionsFold: Fold<ModuleVersionsDocument> = {
  collection: moduleVersions,
  version: 1,
  touches: (event) => (event.type === 'ModuleVersionsSet' ? [MODULE_VERSIONS_ID] : []),
  evolve: (document, event) => (event.type === 'ModuleVersionsSet' ? event.data : document),
}

export const moduleVersionsModel = readModel(moduleVersionsFold)
