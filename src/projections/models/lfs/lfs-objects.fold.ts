/** The large files of each repository, by the log alone. */
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface LfsObjectDocument {
  repoId: number
  oid: string
  /** In bytes. */
  size: number
  addedAt: string
}

/** The id of the document of an object in a repository. */
export const lfsObjectId = (repoId: number, oid: string) => `${repoId}.${oid}`

export const lfsObjectFold: Fold<LfsObjectDocument> = foldOf({
  name: 'lfs_objects',
  indexes: [{ repoId: 1, oid: 1 }, { oid: 1 }],
  version: 1,
  staysUntilRemoved: true,
  ids: ({ data }) => data.objects.map(({ oid }) => lfsObjectId(data.repoId, oid)),
  becomes: {
    LfsObjectsAdded(before, { data, metadata }, id) {
      const object = data.objects.find(({ oid }) => lfsObjectId(data.repoId, oid) === id)
      if (object === undefined) return before
      const { oid, size } = object
      return { repoId: data.repoId, oid, size, addedAt: before?.addedAt ?? metadata.at }
    },
  },
})
