/** Checks the space for the bytes of a request: free disk space and the owner's quota. */

import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Reservation } from '../../projections/installation/disk-usage.ts'
import type { Services } from '../../services/services.ts'
import type { Place } from '../../storage/free-space.ts'

export interface SpaceRequest {
  owner: { id: number; login: string }
  /** The repository that grows; 0 before it exists. */
  repoId: number
  /** The expected or maximum growth. */
  bytes: number
  /** The directory; default: the git repositories. */
  place?: Place
}

/**
 * Reserves space for bytes that the caller writes next; the caller ends the reservation. The free disk space is that of the
 * last second.
 * @throws Refused: insufficient storage when the disk is nearly full, too large beyond the owner's quota
 */
export async function reserveSpace(
  services: Pick<Services, 'config' | 'diskUsage' | 'freeSpace'>,
  space: SpaceRequest,
): Promise<Reservation> {
  await services.freeSpace.require(space.place ?? 'git', space.bytes)
  return reserveQuota(services, space)
}

/** Reserves quota for bytes that are on the disk already and get another owner. @throws Refused (too large) */
export async function reserveQuota(
  { config, diskUsage }: Pick<Services, 'config' | 'diskUsage'>,
  { owner, repoId, bytes }: SpaceRequest,
): Promise<Reservation> {
  const reservation = await diskUsage.reserve({ ownerId: owner.id, repoId }, bytes, config.maxOwnerBytes)
  if (reservation !== undefined) return reservation
  limitReached('owner_bytes')
  const quota = `${config.maxOwnerBytes} bytes in all repositories together`
  throw new Refused(refuse.tooLarge(`the quota of ${owner.login} is used up: ${quota}`))
}
