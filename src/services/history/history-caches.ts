/** The caches of history reads. The past of a stream never changes, so entries stay valid. */
import { LRUCache } from 'lru-cache'
import type { EventStore, RecordedEvent } from '../../events/store/event-store.ts'
import type { HistoryDocument } from '../../projections/models/history/history.fold.ts'
import type { IssueDocument } from '../../projections/models/issues/issues.fold.ts'
import type { PullDocument } from '../../projections/models/pull-requests/pulls.fold.ts'
import { createDocumentSnapshots, type DocumentSnapshots, type StreamPoint } from './document-snapshots.ts'

/** The facts of one event, by which a history is filtered. */
export type EventFacts = Pick<
  HistoryDocument,
  'position' | 'type' | 'actor' | 'at' | 'adminsOnly' | 'issueWords'
> &
  Pick<RecordedEvent, 'revision'>

/** Maximum number of events whose facts are kept, about 100 bytes each. A longer stream is read each time. */
const MAX_EVENTS = 200_000
const MAX_SEGMENTS = 20_000

export interface HistoryCaches {
  /** The facts of the events of a stream, from its beginning. */
  facts: LRUCache<string, readonly EventFacts[]>
  /**
   * Segments by stream and last revision: the smallest revision, position and time, perhaps of different events. See
   * `queries/history/replay/last-revision.ts`.
   */
  segments: LRUCache<string, StreamPoint>
  issues: DocumentSnapshots<IssueDocument>
  pulls: DocumentSnapshots<PullDocument>
}

export const createHistoryCaches = (events: Pick<EventStore, 'erasures'>): HistoryCaches => ({
  facts: new LRUCache({ maxSize: MAX_EVENTS }),
  segments: new LRUCache({ max: MAX_SEGMENTS }),
  issues: createDocumentSnapshots(events),
  pulls: createDocumentSnapshots(events),
})
