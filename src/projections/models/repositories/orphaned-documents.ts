import type { RecordedOf } from '../../../events/handlers.ts'

type Removal = RecordedOf<'LeftDocumentsRemoved'>

/** Whether the event names documents that a deleted repository left, and that the read models do not keep any more. */
export const removesOrphans = (event: { type: string }): event is Removal =>
  event.type === 'LeftDocumentsRemoved'

/** The ids of those of a read model. */
export const orphanIdsOf = (name: string, { data }: Removal): readonly string[] =>
  data.left.find(({ model }) => model === name)?.ids ?? []
