/** The module versions for the gRPC Query service: one document with all modules of the chain. */
import type { ModuleVersion } from '../../../events/catalog/upgrade.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface ModuleVersionsDocument {
  /** In the order of their names. */
  moduleVersions: ModuleVersion[]
}

export const MODULE_VERSIONS_ID = 'chain'

export const moduleVersionsFold: Fold<ModuleVersionsDocument> = foldOf({
  name: 'module_versions',
  version: 1,
  ids: () => [MODULE_VERSIONS_ID],
  becomes: { ModuleVersionsSet: (_, { data }) => data },
})

export const moduleVersions = moduleVersionsFold.collection
