/** Issues and pull requests with an unfinished erasure, after a crash or a failure. */
import { isPullStream } from '../../../events/streams.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface ErasureDocument {
  repoId: number
  index: number
  isPull: boolean
  /** The revision of the last erasure. */
  revision: number
}

export const erasureId = ({ repoId, index }: { repoId: number; index: number }) => `${repoId}.${index}`

export const erasureFold: Fold<ErasureDocument> = foldOf({
  name: 'erasures',
  version: 1,
  ids: ({ data }) => [erasureId(data)],
  becomes: {
    TextsErased: (_, { stream, revision, data: { repoId, index } }) => ({
      repoId,
      index,
      isPull: isPullStream(stream),
      revision,
    }),
    ErasureFinished: (before, { data }) =>
      before === undefined || data.upTo >= before.revision ? undefined : before,
  },
})
