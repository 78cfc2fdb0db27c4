/** Which documents of a deleted repository an event lets go. */
import type { Envelope } from '../events/domain-events.ts'
import { type Handlers, handle, handledBy, type RecordedOf } from '../events/handlers.ts'
import { issueId, textId } from './issue-selection.ts'

type Removal = 'LeftDocumentsRemoved' | 'LeftDiscussionsRemoved'

const NONE: readonly string[] = []

/** The ids of the documents of a read model that an event names. */
const removals: Handlers<Removal, string, readonly string[], Envelope> = {
  LeftDocumentsRemoved: (model, { data }) => data.left.find((one) => one.model === model)?.ids ?? NONE,
  LeftDiscussionsRemoved(model, { data: { repoId, left } }) {
    const issues = left.issues.map((index) => issueId(repoId, index))
    switch (model) {
      case 'issues':
      case 'pulls':
      case 'activities':
        return issues
      case 'comments':
        return left.comments.map(({ id }) => `${id}`)
      case 'issue_texts':
        return [...issues, ...left.comments.map(({ id, index }) => textId(repoId, index, id))]
      default:
        return NONE
    }
  },
}

/** Whether the event names documents that a deleted repository left, and that the read models do not keep any more. */
export const isRemoval = handledBy<Removal, Envelope>(removals)

/** The ids of those of a read model. */
export const leftIn = (model: string, event: RecordedOf<Removal>): readonly string[] =>
  handle(removals, model, event)
