import type { RecordedOf } from '../../../events/handlers.ts'

type Removal = RecordedOf<'LeftDocumentsRemoved'>

/** Whether the event removes orphaned documents of a deleted repository. */
export const removesOrphans = (event: { type: string }): event is Removal =>
  event.type === 'LeftDocumentsRemoved'

/** Returns the ids of the removed documents of a read model. */
export const orphanIdsOf = (name: string, { data }: Removal): readonly string[] =>
  data.left.find(({ model }) => model === name)?.ids ?? []
