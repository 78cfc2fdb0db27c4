/** What follows for repositories when an organization, or the repository that they are a fork of, is shown to fewer. */
import { isOpenTo } from '../../rights/visibility.ts'
import type { Services } from '../../services.ts'
import { organizations, repositories } from '../aggregates.ts'
import { eachOne } from '../each-one.ts'
import type { CommandContext } from '../execute.ts'
import { decideEdit, decideOwnerVisibility, hiddenness } from './repository.ts'

/** Records in the repositories of an organization who may see it now. Those that know it already stay as they are. */
export async function showOwnerIn(
  services: Services,
  context: CommandContext,
  organizationId: number,
): Promise<void> {
  const organization = await organizations.load(services, organizationId)
  if (organization.status !== 'active') return
  const { visibility } = organization.settings
  // The documents of thousands would be read in one turn.
  const owned = await services.views.repositories.ids({ ownerId: organizationId })
  await eachOne(owned.map(Number), async (id) => {
    await repositories.change(services, context, id, `owner visibility ${id}`, (state) =>
      decideOwnerVisibility(state, visibility),
    )
  })
}

/**
 * Makes the forks of a repository private, as in Gitea, unless everybody may see the repository now. Their own forks
 * follow when the log has this. Nothing is ever made public by this: a fork may have commits of its own.
 */
export async function hideForksOf(
  services: Services,
  context: CommandContext,
  repoId: number,
): Promise<void> {
  const parent = await repositories.load(services, repoId)
  if (parent.status !== 'active' || isOpenTo(hiddenness(parent), null)) return
  const shown = await services.views.repositories.ids({ parentId: repoId, private: false })
  await eachOne(shown.map(Number), async (id) => {
    await repositories.change(services, context, id, `hide fork of ${repoId}`, (state) =>
      state.status === 'active' ? decideEdit(state, { private: true }, false) : [],
    )
  })
}
