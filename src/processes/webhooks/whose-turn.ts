/**
 * Whose webhooks send next: those of the account whose deliveries have taken the least time lately. Those whose deliveries
 * take much never get the last places. So receivers that hang keep nobody else waiting, however many webhooks and
 * organizations they belong to.
 */
import type { RecentUse } from '../../recent-use.ts'

/** A webhook whose time has come. */
export interface Ready {
  hookId: number
  ownerId: number
  /** Since when, in milliseconds since 1970. */
  at: number
}

interface Places {
  /** How many are free: in all, for all slow accounts together, and for one account. */
  free: number
  freeForSlow: number
  freeFor(ownerId: number): number
  /** How long the deliveries of each account have taken lately, in milliseconds. */
  used: Pick<RecentUse, 'least' | 'of'>
}

/** Slow is whose deliveries have taken more than this lately, in milliseconds: a single one that hangs does. */
const SLOW_MS = 5000

export const isSlow = (ownerId: number, used: Places['used']) => used.of(`${ownerId}`) > SLOW_MS

/** Those that get the free places, in their order. Of one account they are those that have waited longest. */
export function whoseTurn(ready: Iterable<Ready>, { free, freeForSlow, freeFor, used }: Places): Ready[] {
  const byOwner = Map.groupBy(ready, (one) => `${one.ownerId}`)
  for (const [owner, own] of byOwner) {
    const few = own.sort((one, other) => one.at - other.at).slice(0, Math.max(0, freeFor(Number(owner))))
    if (few.length > 0) byOwner.set(owner, few)
    else byOwner.delete(owner)
  }
  const chosen: Ready[] = []
  let slowLeft = freeForSlow
  while (chosen.length < free) {
    const owner = used.least(byOwner.keys())
    const own = owner === undefined ? undefined : byOwner.get(owner)
    const one = own?.shift()
    if (owner === undefined || own === undefined || one === undefined) break
    if (isSlow(one.ownerId, used)) {
      // Those that follow have used even more.
      if (slowLeft <= 0) break
      slowLeft -= 1
    }
    chosen.push(one)
    // To the end of those that have used as much.
    byOwner.delete(owner)
    if (own.length > 0) byOwner.set(owner, own)
  }
  return chosen
}
