/** The aggregate of the reactions to one text: an issue, pull request or comment. They are in its stream. Pure. */

import { refuse } from '../../errors/refusal.ts'
import type { IssueEvent } from '../../events/catalog/issues.ts'
import type { AccountRef, IssueRef } from '../../events/catalog/parts.ts'
import type { ReactionEvent } from '../../events/catalog/reactions.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { type SnapshotsOf, snapshots } from '../execution/snapshots.ts'

export interface ReactionsState {
  /** `<user id> <reaction>` */
  readonly given: ReadonlySet<string>
  /** Present when the issue is deleted. */
  readonly ended?: true
}

/** The target; null for the issue itself. */
export interface ReactionTarget extends IssueRef {
  commentId: number | null
}

/** Maximum number of reactions to one text: a list without paging has all of them. */
const MAX_REACTIONS = 1000

const keyOf = ({ user, reaction }: { user: AccountRef; reaction: string }) => `${user.id} ${reaction}`

type ReactionsChange = ReactionEvent | Extract<IssueEvent, { type: 'IssueDeleted' }>

const decider: Decider<ReactionsState, ReactionsChange> = deciderOf({
  initialState: { given: new Set() },
  becomes: {
    ReactionAdded: (state, { data }) => ({ ...state, given: new Set(state.given).add(keyOf(data)) }),
    ReactionRemoved(state, { data }) {
      const given = new Set(state.given)
      given.delete(keyOf(data))
      return { ...state, given }
    },
    IssueDeleted: (state) => ({ ...state, ended: true }),
  },
})

const known = snapshots<ReactionsState>()

/** Creates the decider of one text; it ignores reactions to other texts of the stream. */
export function reactionsDecider(commentId: number | null): Decider<ReactionsState, ReactionsChange> {
  const ofText: SnapshotsOf<ReactionsState> = (caches) => {
    const all = known(caches)
    const key = (stream: string) => `${stream} ${commentId}`
    return {
      get: (stream) => all.get(key(stream)),
      set: (stream, snapshot) => all.set(key(stream), snapshot),
    }
  }
  const { initialState, handles, evolve } = decider
  return {
    initialState,
    handles,
    evolve: (state, event) =>
      event.type === 'IssueDeleted' || event.data.commentId === commentId ? evolve(state, event) : state,
    snapshots: ofText,
  }
}

/** Adds a reaction; no event for a repeated one. */
export function decideAddReaction(
  { given, ended }: ReactionsState,
  { repoId, index, commentId }: ReactionTarget,
  user: AccountRef,
  reaction: string,
): Decision<ReactionEvent> {
  if (ended) return refuse.notFound('issue not found')
  if (given.has(keyOf({ user, reaction }))) return []
  if (given.size >= MAX_REACTIONS) return refuse.unprocessable(`there are ${MAX_REACTIONS} reactions already`)
  return [{ type: 'ReactionAdded', data: { repoId, index, commentId, user, reaction } }]
}

/** Removes a reaction; no event without one. */
export function decideRemoveReaction(
  { given }: ReactionsState,
  { repoId, index, commentId }: ReactionTarget,
  user: AccountRef,
  reaction: string,
): Decision<ReactionEvent> {
  if (!given.has(keyOf({ user, reaction }))) return []
  return [{ type: 'ReactionRemoved', data: { repoId, index, commentId, user, reaction } }]
}
