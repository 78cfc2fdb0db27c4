/** The aggregate of a user's star and watch of a repository. Pure. */

import { refuse } from '../../../errors/refusal.ts'
import type { FollowEvent } from '../../../events/catalog/notifications.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import { type Decider, type Decision, deciderOf } from '../../execution/decider.ts'
import { snapshots } from '../../execution/snapshots.ts'

export interface FollowState {
  starred: boolean
  watched: boolean
}

export type FollowKind = keyof FollowState

/** Maximum number of starred, and of watched, repositories of a user: a list reads all at once. */
const MAX_FOLLOWED = 5000

export const followDecider: Decider<FollowState, FollowEvent> = deciderOf({
  initialState: { starred: false, watched: false },
  snapshots: snapshots(),
  becomes: {
    RepositoryStarred: (state) => ({ ...state, starred: true }),
    RepositoryUnstarred: (state) => ({ ...state, starred: false }),
    RepositoryWatched: (state) => ({ ...state, watched: true }),
    RepositoryUnwatched: (state) => ({ ...state, watched: false }),
  },
})

const TYPES = {
  starred: { begin: 'RepositoryStarred', end: 'RepositoryUnstarred' },
  watched: { begin: 'RepositoryWatched', end: 'RepositoryUnwatched' },
} as const

/** Stars or watches; no event for a repeated request. `followed`: number of the user's other stars or watches. */
export function decideFollow(
  state: FollowState,
  kind: FollowKind,
  data: { repoId: number; user: AccountRef },
  followed: number,
): Decision<FollowEvent> {
  if (state[kind]) return []
  if (followed >= MAX_FOLLOWED) {
    return refuse.unprocessable(`a user can have at most ${MAX_FOLLOWED} repositories ${kind}`)
  }
  return [{ type: TYPES[kind].begin, data }]
}

/** Ends a star or watch; no event without one. */
export function decideUnfollow(
  state: FollowState,
  kind: FollowKind,
  data: { repoId: number; user: AccountRef },
): Decision<FollowEvent> {
  return state[kind] ? [{ type: TYPES[kind].end, data }] : []
}
