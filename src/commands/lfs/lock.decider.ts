/** The aggregate of a path's lock. A path has one lock at a time. Pure. */

import { coded, type Refusal, refuse } from '../../errors/refusal.ts'
import type { LfsEvent, LfsLock } from '../../events/catalog/lfs.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import { type Decider, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'

type LockEvent = Extract<LfsEvent, { type: 'LfsLocked' | 'LfsUnlocked' }>

/** The present lock; null without one. */
export interface LockState {
  held: LfsLock | null
}

const unlocked: LockState = { held: null }

export const lockDecider: Decider<LockState, LockEvent> = deciderOf({
  initialState: unlocked,
  snapshots: snapshots(),
  becomes: {
    LfsLocked: (_, { data }) => ({ held: data.lock }),
    LfsUnlocked: () => unlocked,
  },
})

export function decideLock(state: LockState, repoId: number, lock: LfsLock): LockEvent[] | Refusal {
  if (state.held !== null) {
    // The answer names the lock.
    return coded('already_locked', refuse.conflict(`${lock.path} is locked by ${state.held.owner.login}`))
  }
  return [{ type: 'LfsLocked', data: { repoId, lock } }]
}

/** `force`: whether to release another user's lock. */
export function decideUnlock(
  state: LockState,
  repoId: number,
  { lockId, by, force }: { lockId: number; by: AccountRef; force: boolean },
): LockEvent[] | Refusal {
  const lock = state.held
  if (lock === null || lock.id !== lockId) return refuse.notFound('lock not found')
  const forced = lock.owner.id !== by.id
  if (forced && !force) return refuse.forbidden(`the lock is ${lock.owner.login}'s; release it with force`)
  return [{ type: 'LfsUnlocked', data: { repoId, lockId, path: lock.path, by, forced } }]
}
