import type { Services } from '../../services/services.ts'

/**
 * Changes of what an organization has take turns on all nodes: it is not deleted while it gets a repository, and not shown
 * to more and to fewer at the same time.
 */
export function withOrganizationLock<T>(
  { turns }: Pick<Services, 'turns'>,
  id: number,
  work: () => Promise<T>,
): Promise<T> {
  return turns(`organization ${id}`, work)
}
