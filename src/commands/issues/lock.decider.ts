/** Decides locks of issues and pull requests: only writers may comment on locked ones. Pure. */
import type { LockEvent } from '../../events/catalog/issues.ts'
import type { Discussion } from '../../projections/models/issues/discussion.ts'

/** Gitea's default reasons. A lock may have no reason. */
export const LOCK_REASONS = ['Too heated', 'Off-topic', 'Resolved', 'Spam'] as const

export function decideLock({ repoId, index, locked }: Discussion, reason: string): LockEvent[] {
  return locked ? [] : [{ type: 'DiscussionLocked', data: { repoId, index, reason } }]
}

export function decideUnlock({ repoId, index, locked }: Discussion): LockEvent[] {
  return locked ? [{ type: 'DiscussionUnlocked', data: { repoId, index } }] : []
}
