/** What the events about refs say besides the refs themselves. */

/** Why refs moved. */
export const REF_CAUSES = [
  'push',
  'merge',
  'update',
  'fork',
  'auto-init',
  'branch-creation',
  'branch-deletion',
  'branch-rename',
  'tag-creation',
  'tag-deletion',
  // Found when the server started, after a crash between the write to git and the write to the log.
  'recovered',
] as const
export type RefCause = (typeof REF_CAUSES)[number]

/** When a tag was made: lists have the newest first, without asking git. */
export interface TagTime {
  /** What the ref points at: the tag's own object, or its commit. */
  sha: string
  /** ISO 8601: of the tagger, or of the committer. */
  at: string
}
