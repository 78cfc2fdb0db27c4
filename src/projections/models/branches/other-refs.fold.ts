/**
 * Refs that are neither branches nor tags, such as notes. The present reads them from git; a past moment has only these
 * documents.
 */
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { lastUpdateOf } from './moved-refs.ts'

export interface OtherRefDocument {
  repoId: number
  /** Full name: `refs/notes/commits`. */
  ref: string
  sha: string
}

export const otherRefId = (repoId: number, ref: string) => `${repoId}/${ref}`

export const otherRefFold: Fold<OtherRefDocument> = foldOf({
  name: 'other_refs',
  indexes: [{ repoId: 1, ref: 1 }],
  version: 1,
  staysUntilRemoved: true,
  ids({ data: { repoId, refs } }) {
    const others = refs.filter(({ ref }) => !/^refs\/(?:heads|tags)\//.test(ref))
    return others.map(({ ref }) => otherRefId(repoId, ref))
  },
  becomes: {
    RefsUpdated(_, { data: { repoId, refs } }, id) {
      const ref = id.slice(otherRefId(repoId, '').length)
      const sha = lastUpdateOf(refs, ref)?.to ?? null
      return sha === null ? undefined : { repoId, ref, sha }
    },
  },
})
