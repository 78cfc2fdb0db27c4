import type { Visibility } from '../../events/catalog/organizations.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { WriteServices } from '../../services/services.ts'
import { organizations } from '../execution/aggregates.ts'
import { repositoryVisibility } from './visibility.ts'

/**
 * Returns the visibility of an account's repositories from the log: its document may be older than a change that hides
 * it.
 */
export async function currentVisibility(
  services: WriteServices,
  { id, kind, visibility }: Pick<AccountDocument, 'id' | 'kind' | 'visibility'>,
): Promise<Visibility> {
  if (kind === 'user') return visibility
  const organization = await organizations.load(services, id)
  return organization.status === 'active' ? repositoryVisibility(organization) : visibility
}
