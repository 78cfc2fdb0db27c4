/** What the data of the events about the listing of repositories looks like. */
import type { ListingEvent } from './listing-events.ts'
import { type Checks, flag, list, object, text, whole } from './shapes.ts'

type DataOf<T extends ListingEvent['type']> = Extract<ListingEvent, { type: T }>['data']

export const listingShapes: { readonly [T in ListingEvent['type']]: Checks<DataOf<T>> } = {
  ArchivedChanged: { repoId: whole, archived: flag },
  TemplateChanged: { repoId: whole, template: flag },
  TopicsChanged: {
    repoId: whole,
    topics: list(text),
    listed: object<DataOf<'TopicsChanged'>['listed']>({ added: list(text), removed: list(text) }),
  },
}
