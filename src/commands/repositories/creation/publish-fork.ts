/** Decides whether a fork may become public: it has the commits of its ancestors. */

import { accessTo } from '../../../access/access.ts'
import { isOpenTo } from '../../../access/visibility.ts'
import type { RepositoryDocument } from '../../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../../services/services.ts'
import { repositories } from '../../execution/aggregates.ts'
import { openness } from '../repository.decider.ts'

/** Maximum number of ancestors that are checked. */
const MAX_ANCESTORS = 100

/**
 * Returns whether the requester administers all ancestors up to the first public one. A deleted ancestor keeps its last
 * visibility and has no admins. So a fork of a fork shows no more than the fork.
 */
export async function mayPublishFork(
  services: Services,
  fork: RepositoryDocument,
  requester: AccountDocument,
): Promise<boolean> {
  if (requester.siteAdmin) return true
  let id = fork.parentId
  for (let i = 0; id !== null; i++) {
    const state = await repositories.load(services, id)
    if (i === MAX_ANCESTORS || state.status === 'none') return false
    if (isOpenTo(openness(state), null)) return true
    const document = await services.views.repositories.get(`${id}`)
    if (document === undefined || accessTo(document, requester) !== 'admin') return false
    id = state.parentId
  }
  return true
}
