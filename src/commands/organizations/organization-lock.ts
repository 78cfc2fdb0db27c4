import type { Services } from '../../services/services.ts'

/**
 * Runs `work` under the organization's lock, on all nodes: no deletion while it receives a repository, and no
 * concurrent changes of its visibility.
 */
export function withOrganizationLock<T>(
  { runExclusive }: Pick<Services, 'runExclusive'>,
  id: number,
  work: () => Promise<T>,
): Promise<T> {
  return runExclusive(`organization ${id}`, work)
}
