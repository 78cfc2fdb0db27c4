/** The texts that an erasure removes. */
import { Type } from 'typebox'

export const ErasedWire = Type.Object(
  {
    texts: Type.Integer({ description: 'Number of events of the history whose texts are erased' }),
    comments: Type.Array(Type.Integer(), { description: 'Ids of erased comments and reviews' }),
    files: Type.Array(Type.String(), { description: 'UUIDs of removed attachments' }),
  },
  { title: 'Erased' },
)
