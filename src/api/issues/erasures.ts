/** The texts that an erasure removes. */
import { Type } from 'typebox'

export const ErasedWire = Type.Object(
  {
    texts: Type.Integer({ description: 'number of events with texts' }),
    comments: Type.Array(Type.Integer(), { description: 'ids of comments and reviews' }),
    files: Type.Array(Type.String(), { description: 'uuids' }),
  },
  { title: 'Erased' },
)
