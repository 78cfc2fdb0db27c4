/** Decides transfers of a repository, by Gitea's rules. Pure. */

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

/** `ownerId`: the owner whose permission was checked. */
function transferable(state: RepositoryState, ownerId: number, recipient: AccountRef): Active | Refusal {
  if (state.status !== 'active') return gone
  if (state.transfer !== null) return refuse.conflict('a transfer of this repository is pending already')
  if (state.owner.id !== ownerId) return contended
  if (state.owner.id === recipient.id) {
    const problem = `new_owner: the repository is ${recipient.login}'s already`
    return refuse.unprocessable(problem, [problem])
  }
  return state
}

/** Offers the repository to its recipient. It stays with its owner until the answer. */
export function decideStartTransfer(
  state: RepositoryState,
  ownerId: number,
  { sender, recipient, teamIds }: PendingTransfer,
): Decision<RepositoryEvent> {
  const active = transferable(state, ownerId, recipient)
  if ('refused' in active) return active
  return [{ type: 'TransferStarted', data: { repoId: active.id, sender, recipient, teamIds } }]
}

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
  // A collaborator who becomes the owner needs no collaboration.
  if (collaborators[`${owner.id}`] !== undefined) {
    const user = { id: owner.id, login: owner.login }
    events.push({ type: 'CollaboratorRemoved', data: { repoId, user } })
  }
  return events
}

/** Transfers the repository at once. Its name is claimed before. */
export function decideTransfer(
  state: RepositoryState,
  ownerId: number,
  to: NewOwner,
): Decision<RepositoryEvent> {
  const active = transferable(state, ownerId, to.owner)
  return 'refused' in active ? active : transferred(active, to)
}

/** Accepts a transfer. The teams are those that the sender named. */
export function decideAcceptTransfer(
  state: RepositoryState,
  to: Omit<NewOwner, 'teamIds'>,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const { transfer } = state
  if (transfer?.recipient.id !== to.owner.id) return noTransfer
  return transferred(state, { ...to, teamIds: transfer.teamIds })
}

/** Rejects or cancels a transfer. `recipientId`: the recipient of the intended transfer. */
export function decideCancelTransfer(state: RepositoryState, recipientId: number): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const { id: repoId, transfer } = state
  if (transfer?.recipient.id !== recipientId) return noTransfer
  return [{ type: 'TransferCanceled', data: { repoId, recipient: transfer.recipient } }]
}

/** Removes a user who is being deleted from the collaborators, and ends a transfer to them. */
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
