/** The events about references: which issues and pull requests a text names, as a fact with ids. */
import type { ReferenceAction } from '../markup/references.ts'
import type { IssueRef } from './refs.ts'

/** The title and body of an issue or pull request, or one of its comments and reviews. */
interface TextSource {
  index: number
  isPull: boolean
  /** The id of the comment, the review, or the comment of a review; null: the title and the body. */
  commentId: number | null
}

interface CommitSource {
  sha: string
  /** The first line of its message. */
  subject: string
}

export interface ReferencesData {
  /** Of the text. */
  repoId: number
  source: TextSource | CommitSource
  /** Of the event that brought the text, in the stream of its issue or pull request; null: a commit never changes. */
  revision: number | null
  /** All of the text now: they replace those before. The title of an issue may name what its body names, too. */
  references: { issue: IssueRef; action: ReferenceAction; inTitle: boolean }[]
}

/** `references-<repoId>.<index>.<comment>` and `references-<repoId>.<sha>` */
export interface ReferenceEvent {
  type: 'ReferencesRecorded'
  data: ReferencesData
}
