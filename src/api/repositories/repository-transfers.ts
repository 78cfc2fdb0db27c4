/** Transfers that wait for their recipients, on the wire. Only users who may end a transfer see it. */
import { type Static, Type } from 'typebox'
import { accessTo, atLeast, mayAnswerTransfer } from '../../access/access.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { TeamWire, teamWire } from '../organizations/teams.ts'
import { UserWire, userWire } from '../users/users.ts'

export const RepoTransferWire = Type.Object(
  {
    doer: UserWire,
    recipient: UserWire,
    teams: Type.Array(TeamWire),
  },
  { title: 'RepoTransfer' },
)

/**
 * Returns the transfers of these repositories as Gitea's `RepoTransfer`, by repository. Two look-ups read all users and
 * teams.
 */
export async function transfersOf(
  { views, publicUrl }: Services,
  repositories: readonly RepositoryDocument[],
  requester: AccountDocument | null,
): Promise<ReadonlyMap<number, { repo_transfer: Static<typeof RepoTransferWire> }>> {
  const pending = repositories.flatMap((repository) => {
    const { id, transfer } = repository
    if (!transfer || requester === null) return []
    const isConcerned =
      atLeast(accessTo(repository, requester), 'admin') || mayAnswerTransfer(transfer, requester)
    return isConcerned ? [{ id, ...transfer }] : []
  })
  if (pending.length === 0) return new Map()
  const people = pending.flatMap(({ sender, recipient }) => [`${sender.id}`, `${recipient.id}`])
  const [accounts, teams] = await Promise.all([
    views.accounts.getMany([...new Set(people)]),
    views.teams.getMany([...new Set(pending.flatMap(({ teamIds }) => teamIds.map(String)))]),
  ])
  const accountById = new Map(accounts.map((account) => [account.id, account]))
  return new Map(
    pending.flatMap(({ id, sender, recipient, teamIds }) => {
      const [doer, owner] = [accountById.get(sender.id), accountById.get(recipient.id)]
      if (doer === undefined || owner === undefined) return []
      const named = teams.filter((team) => team.organizationId === owner.id && teamIds.includes(team.id))
      const repo_transfer = {
        doer: userWire(doer, publicUrl()),
        recipient: userWire(owner, publicUrl()),
        teams: named.map((team) => teamWire({ kind: 'made', team }, owner)),
      }
      return [[id, { repo_transfer }] as const]
    }),
  )
}
