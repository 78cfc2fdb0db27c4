/** Tags by repository, so that a list of tags finds its page without git. */

import { type Fold, foldOf } from '../../projector/read-model.ts'
import { lastUpdateOf } from '../branches/moved-refs.ts'

export interface TagDocument {
  repoId: number
  name: string
  /** Target of the ref: the tag object or the commit. */
  sha: string
  /** Time of the tag in milliseconds since 1970; if the log lacks it, the time of its record. */
  date: number
}

const PREFIX = 'refs/tags/'

export const tagId = (repoId: number, name: string) => `${repoId}/${name}`

export const tagFold: Fold<TagDocument> = foldOf({
  name: 'tags',
  indexes: [{ repoId: 1, date: 1, name: 1 }],
  version: 1,
  staysUntilRemoved: true,
  ids({ data: { repoId, refs } }) {
    const tags = refs.filter((update) => update.ref.startsWith(PREFIX))
    return tags.map((update) => tagId(repoId, update.ref.slice(PREFIX.length)))
  },
  becomes: {
    RefsUpdated(_, { data: { repoId, refs, tags = [] }, metadata }, id) {
      const name = id.slice(tagId(repoId, '').length)
      const sha = lastUpdateOf(refs, PREFIX + name)?.to ?? null
      if (sha === null) return undefined
      const at = tags.find((tag) => tag.sha === sha)?.at ?? metadata.at
      return { repoId, name, sha, date: Date.parse(at) }
    },
  },
})
