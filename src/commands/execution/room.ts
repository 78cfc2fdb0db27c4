/** Whether there is room for what a request brings: on the disk, and within the quota of its owner. */

import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Reservation } from '../../projections/installation/disk-usage.ts'
import type { Services } from '../../services/services.ts'
import type { Place } from '../../storage/free-space.ts'

export interface RoomFor {
  owner: { id: number; login: string }
  /** The repository that grows; 0 when it is not made yet. */
  repoId: number
  /** How much it grows, at most or about. */
  bytes: number
  /** Where; the git repositories when it is not set. */
  place?: Place
}

/**
 * Holds room for bytes that are about to be written. The caller ends the reservation. Reads no disk but the free space
 * of the last second.
 *
 * @throws Refused: insufficient storage when the disk is nearly full, too large beyond the owner's quota
 */
export async function takeRoom(
  services: Pick<Services, 'config' | 'diskUsage' | 'freeSpace'>,
  room: RoomFor,
): Promise<Reservation> {
  await services.freeSpace.require(room.place ?? 'git', room.bytes)
  return takeQuota(services, room)
}

/** The same for bytes that are on the disk already, and get another owner. @throws Refused (too large) */
export async function takeQuota(
  { config, diskUsage }: Pick<Services, 'config' | 'diskUsage'>,
  { owner, repoId, bytes }: RoomFor,
): Promise<Reservation> {
  const reservation = await diskUsage.reserve({ ownerId: owner.id, repoId }, bytes, config.maxOwnerBytes)
  if (reservation !== undefined) return reservation
  limitReached('owner_bytes')
  const most = `${config.maxOwnerBytes} bytes in all repositories together`
  throw new Refused(refuse.tooLarge(`the quota of ${owner.login} is used up: ${most}`))
}
