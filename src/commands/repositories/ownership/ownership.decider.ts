/** Who owns a repository, and who is to own it: Gitea's rules of transfers. Pure. */

import { contended, type Refusal, refuse } from '../../../errors/refusal.ts'
import type { Visibility } from '../../../events/catalog/organizations.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import type { Owner, PendingTransfer } from '../../../events/catalog/repositories.ts'
import type { Decision } from '../../execution/decider.ts'
import type { RepositoryEvent, RepositoryState } from '../repository.decider.ts'
import { topicsSeen } from '../topics.decider.ts'

type Active = Extract<RepositoryState, { status: 'active' }>

const gone = refuse.notFound('repository not found')
export const noTransfer = refuse.notFound('no transfer of this repository is pending')

/** `ownerId`: the owner whose right to give it away was checked. */
function givenAway(state: RepositoryState, ownerId: number, recipient: AccountRef): Active | Refusal {
  if (state.status !== 'active') return gone
  if (state.transfer !== null) return refuse.conflict('a transfer of this repository is pending already')
  if (state.owner.id !== ownerId) return contended
  if (state.owner.id === recipient.id) {
    const problem = `new_owner: the repository is ${recipient.login}'s already`
    return refuse.unprocessable(problem, [problem])
  }
  return state
}

/** Offers the repository to its recipient. It stays where it is until that one has answered. */
export function decideStartTransfer(
  state: RepositoryState,
  ownerId: number,
  { sender, recipient, teamIds }: PendingTransfer,
): Decision<RepositoryEvent> {
  const active = givenAway(state, ownerId, recipient)
  if ('refused' in active) return active
  return [{ type: 'TransferStarted', data: { repoId: active.id, sender, recipient, teamIds } }]
}

/** An account that a repository is given to. */
export interface NewOwner {
  owner: Owner
  ownerVisibility: Visibility
  teamIds: number[]
}

function transferred(state: Active, { owner, ownerVisibility, teamIds }: NewOwner): RepositoryEvent[] {
  const { id: repoId, owner: from, settings, collaborators } = state
  const data = { repoId, name: settings.name, from, owner, ownerVisibility, teamIds }
  const events: RepositoryEvent[] = [
    { type: 'RepositoryTransferred', data },
    ...topicsSeen(state, { ...state, ownerVisibility }),
  ]
  // The owner has all rights already.
  if (collaborators[`${owner.id}`] !== undefined) {
    const user = { id: owner.id, login: owner.login }
    events.push({ type: 'CollaboratorRemoved', data: { repoId, user } })
  }
  return events
}

/** Gives the repository away at once. Its name is claimed before this. */
export function decideTransfer(
  state: RepositoryState,
  ownerId: number,
  to: NewOwner,
): Decision<RepositoryEvent> {
  const active = givenAway(state, ownerId, to.owner)
  return 'refused' in active ? active : transferred(active, to)
}

/** Its recipient takes the repository. The teams are those that the sender has named. */
export function decideAcceptTransfer(
  state: RepositoryState,
  to: Omit<NewOwner, 'teamIds'>,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const { transfer } = state
  if (transfer?.recipient.id !== to.owner.id) return noTransfer
  return transferred(state, { ...to, teamIds: transfer.teamIds })
}

/** Ends a transfer: its recipient refuses it, or its sender takes it back. `recipientId`: whose transfer was meant. */
export function decideCancelTransfer(state: RepositoryState, recipientId: number): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const { id: repoId, transfer } = state
  if (transfer?.recipient.id !== recipientId) return noTransfer
  return [{ type: 'TransferCanceled', data: { repoId, recipient: transfer.recipient } }]
}

/** Ends what a user who is being deleted has in the repository: the place among collaborators, a transfer that waits. */
export function decideForgetUser(state: RepositoryState, user: AccountRef): Decision<RepositoryEvent> {
  if (state.status !== 'active') return []
  const { id: repoId, transfer, collaborators } = state
  const events: RepositoryEvent[] = []
  if (collaborators[`${user.id}`] !== undefined) {
    events.push({ type: 'CollaboratorRemoved', data: { repoId, user } })
  }
  if (transfer?.recipient.id === user.id) {
    events.push({ type: 'TransferCanceled', data: { repoId, recipient: transfer.recipient } })
  }
  return events
}
