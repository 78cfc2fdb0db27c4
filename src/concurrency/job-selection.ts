/**
 * Selects the next jobs: first those of the account whose jobs took the least time recently. Slow accounts never get the
 * last free slots, so hanging jobs do not delay other accounts, however many accounts are slow. Pure.
 */
import type { RecentUse } from './recent-use.ts'

interface Ready {
  account: string
  /** The time since which the job waits. */
  due: number
}

interface FreeSlots {
  /** Free slots: in total, for all slow accounts together, and for one account. */
  free: number
  freeForSlow: number
  freeFor(account: string): number
  isSlow(account: string): boolean
  /** Recent run time of each account, in milliseconds. */
  used: Pick<RecentUse, 'least'>
}

/** Returns the jobs that get the free slots, in order. Within an account, the longest waiting job is first. */
export function selectJobs<R extends Ready>(
  ready: Iterable<R>,
  { free, freeForSlow, freeFor, isSlow, used }: FreeSlots,
): R[] {
  const byAccount = Map.groupBy(ready, ({ account }) => account)
  for (const [account, own] of byAccount) {
    const startable = own.sort((one, other) => one.due - other.due).slice(0, Math.max(0, freeFor(account)))
    if (startable.length > 0) byAccount.set(account, startable)
    else byAccount.delete(account)
  }
  const chosen: R[] = []
  let slowLeft = freeForSlow
  while (chosen.length < free) {
    const account = used.least(byAccount.keys())
    const own = account === undefined ? undefined : byAccount.get(account)
    const one = own?.shift()
    if (account === undefined || own === undefined || one === undefined) break
    if (isSlow(account)) {
      // All following accounts have used even more.
      if (slowLeft <= 0) break
      slowLeft -= 1
    }
    chosen.push(one)
    // Move the account behind those with equal use.
    byAccount.delete(account)
    if (own.length > 0) byAccount.set(account, own)
  }
  return chosen
}
