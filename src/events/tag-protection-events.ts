/** The events about the protection of tags, in the stream of the repository. */

/** As in Gitea: only these users and teams make, move and delete the tags that the pattern matches, admins included. */
export interface TagProtection {
  /** Unique on the server. */
  id: number
  /** The name of a tag, a pattern in which `*` also matches slashes, or a regular expression between slashes. */
  pattern: string
  /** User ids. */
  users: number[]
  /** Ids of teams. Absent: none. */
  teams?: number[]
  createdAt: string
  updatedAt: string
}

export type TagProtectionEvent =
  | { type: 'TagProtectionSet'; data: { repoId: number; protection: TagProtection } }
  | { type: 'TagProtectionRemoved'; data: { repoId: number; id: number; pattern: string } }
