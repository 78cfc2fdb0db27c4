/** Updates teams after a repository gets another owner: in the request, or in a process after a crash. */
import { v5 as uuidV5 } from 'uuid'
import type { Owner } from '../../../events/catalog/repositories.ts'
import type { Services } from '../../../services/services.ts'
import { organizations, repositories } from '../../execution/aggregates.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { decideGainRepository, decideLoseRepository } from '../../organizations/team.decider.ts'

/** Namespace of these event ids, so that request and process append the same events. */
const TRANSFERS = '0c6d8a0b-6a51-4b7e-9f0e-6d1f4c2f8d53'

export interface Transferred {
  repoId: number
  from: Owner
  owner: Owner
  teamIds: readonly number[]
}

/**
 * Removes the repository from the teams of the old owner, and adds it to the given teams of the new one. `context`:
 * with the time of the transfer. Idempotent, even after admins have changed the teams.
 */
export async function giveToTeams(
  services: Services,
  context: CommandContext,
  { repoId, from, owner, teamIds }: Transferred,
): Promise<void> {
  const namespace = uuidV5(`${context.at} ${context.correlationId} ${repoId}`, TRANSFERS)
  const once = { ...context, retry: { namespace, digest: namespace } }
  const ownerNow = async () => {
    const state = await repositories.load(services, repoId)
    return state.status === 'active' ? state.owner.id : undefined
  }
  if (from.kind === 'organization' && (await ownerNow()) !== from.id) {
    await organizations.change(services, once, from.id, 'lose repository', (state) =>
      decideLoseRepository(state, repoId),
    )
  }
  if (teamIds.length > 0 && (await ownerNow()) === owner.id) {
    await organizations.change(services, once, owner.id, 'gain repository', (state) =>
      decideGainRepository(state, repoId, teamIds),
    )
  }
  context.written = Math.max(context.written, once.written)
}
