/** The reactions to one text: to an issue or pull request, or to a comment on it. They are in its stream. Pure. */

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

/** What is reacted to. Null: to the issue itself. */
export interface ReactionTarget extends IssueRef {
  commentId: number | null
}

/** At most this many reactions to one text: without a page, a list has all of them. */
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

/** The decider of one text. The stream has the reactions to the others, too; those change nothing. */
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

/** Adds a reaction; no event when the user has given it already. */
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

/** Takes a reaction back; no event when there is none. */
export function decideRemoveReaction(
  { given }: ReactionsState,
  { repoId, index, commentId }: ReactionTarget,
  user: AccountRef,
  reaction: string,
): Decision<ReactionEvent> {
  if (!given.has(keyOf({ user, reaction }))) return []
  return [{ type: 'ReactionRemoved', data: { repoId, index, commentId, user, reaction } }]
}
