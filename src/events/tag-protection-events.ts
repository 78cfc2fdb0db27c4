/** The events about the protection of tags, in the stream of the repository. */

/** As in Gitea: only these users make, move and delete the tags that the pattern matches, admins included. */
export interface TagProtection {
  /** Unique on the server. */
  id: number
  /** The name of a tag, or a pattern in which `*` also matches slashes. */
  pattern: string
  /** User ids. */
  users: number[]
  createdAt: string
  updatedAt: string
}

export type TagProtectionEvent =
  | { type: 'TagProtectionSet'; data: { repoId: number; protection: TagProtection } }
  | { type: 'TagProtectionRemoved'; data: { repoId: number; id: number; pattern: string } }
