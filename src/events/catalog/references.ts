/** Which issues and pull requests a text names, as a fact with ids. */
import { type Static, Type } from 'typebox'
import { REFERENCE_ACTIONS } from '../../domain/markup/references.ts'
import { type EventsOf, Flag, IssueRef, OrNull, Text, Whole } from './parts.ts'

/** The title and body of an issue or pull request, or one of its comments and reviews. */
const TextSource = Type.Object({
  index: Whole,
  isPull: Flag,
  /** The id of the comment, the review, or the comment of a review; null: the title and the body. */
  commentId: OrNull(Whole),
})

const CommitSource = Type.Object({
  sha: Text,
  /** The first line of its message. */
  subject: Text,
})

const ReferencesData = Type.Object({
  /** Of the text. */
  repoId: Whole,
  source: Type.Union([TextSource, CommitSource]),
  /** Of the event that brought the text, in the stream of its issue or pull request; null: a commit never changes. */
  revision: OrNull(Whole),
  /** All of the text now: they replace those before. The title of an issue may name what its body names, too. */
  references: Type.Array(
    Type.Object({ issue: IssueRef, action: Type.Enum([...REFERENCE_ACTIONS]), inTitle: Flag }),
  ),
})
export type ReferencesData = Static<typeof ReferencesData>

/** `references-<repoId>.<index>.<comment>` and `references-<repoId>.<sha>` */
export const referenceEvents = { ReferencesRecorded: ReferencesData }
export type ReferenceEvent = EventsOf<typeof referenceEvents>
