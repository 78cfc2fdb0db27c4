/** The issues and pull requests that a text names, by id. */
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
  /** Repository of the text. */
  repoId: Whole,
  source: Type.Union([TextSource, CommitSource]),
  /** Revision of the text's event in the stream of its issue or pull request; null for a commit, which never changes. */
  revision: OrNull(Whole),
  /** All references of the text, which replace earlier ones. An issue's title may name the same one as its body. */
  references: Type.Array(
    Type.Object({ issue: IssueRef, action: Type.Enum([...REFERENCE_ACTIONS]), inTitle: Flag }),
  ),
})
export type ReferencesData = Static<typeof ReferencesData>

/** `references-<repoId>.<index>.<comment>` and `references-<repoId>.<sha>` */
export const referenceEvents = { ReferencesRecorded: ReferencesData }
export type ReferenceEvent = EventsOf<typeof referenceEvents>
