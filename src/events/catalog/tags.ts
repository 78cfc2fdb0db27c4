/** The protection of tags, in the stream of the repository; and the times of tags. */
import { type Static, Type } from 'typebox'
import { type EventsOf, Text, Whole } from './parts.ts'

/** The time of a tag, so that lists are sorted without git. */
export const TagTime = Type.Object({
  /** Target of the ref: the tag's own object, or its commit. */
  sha: Text,
  /** ISO 8601: of the tagger, or of the committer. */
  at: Text,
})
export type TagTime = Static<typeof TagTime>

/** Only these users and teams create, move and delete matching tags. As in Gitea, admins are restricted, too. */
const TagProtection = Type.Object({
  /** Unique on the server. */
  id: Whole,
  /** The name of a tag, a pattern in which `*` also matches slashes, or a regular expression between slashes. */
  pattern: Text,
  /** User ids. */
  users: Type.Array(Whole),
  /** Ids of teams, if any. */
  teams: Type.Optional(Type.Array(Whole)),
  createdAt: Text,
  updatedAt: Text,
})
export type TagProtection = Static<typeof TagProtection>

export const tagProtectionEvents = {
  TagProtectionSet: Type.Object({ repoId: Whole, protection: TagProtection }),
  TagProtectionRemoved: Type.Object({ repoId: Whole, id: Whole, pattern: Text }),
}
export type TagProtectionEvent = EventsOf<typeof tagProtectionEvents>
