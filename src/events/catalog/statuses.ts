/** `checks-<repoId>.<sha>` */
import { type Static, Type } from 'typebox'
import { AccountRef, type EventsOf, Text, Whole } from './parts.ts'

export const COMMIT_STATES = ['pending', 'success', 'error', 'failure', 'warning', 'skipped'] as const
export type CommitState = (typeof COMMIT_STATES)[number]

/** A status of a commit, posted by CI or another program. */
const CommitStatus = Type.Object({
  id: Whole,
  repoId: Whole,
  sha: Text,
  /** The newest status of a context replaces the older ones. */
  context: Text,
  state: Type.Enum([...COMMIT_STATES]),
  description: Text,
  targetUrl: Text,
  creator: AccountRef,
})
export type CommitStatus = Static<typeof CommitStatus>

export const checkEvents = { CommitStatusPosted: CommitStatus }
export type CheckEvent = EventsOf<typeof checkEvents>
