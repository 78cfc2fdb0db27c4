/**
 * Chooses the next job: one of the account whose jobs took the least time lately. Accounts with slow jobs never get the last
 * places, so jobs that hang do not delay other accounts, however many accounts they belong to. Pure.
 */
import type { RecentUse } from './recent-use.ts'

interface Ready {
  account: string
  /** Since when it waits. */
  due: number
}

interface Places {
  /** How many are free: in all, for all slow accounts together, and for one account. */
  free: number
  freeForSlow: number
  freeFor(account: string): number
  isSlow(account: string): boolean
  /** How long the work of each account has taken lately, in milliseconds. */
  used: Pick<RecentUse, 'least'>
}

/** Those that get the free places, in their order. Of one account they are those that have waited longest. */
export function selectJobs<R extends Ready>(
  ready: Iterable<R>,
  { free, freeForSlow, freeFor, isSlow, used }: Places,
): R[] {
  const byAccount = Map.groupBy(ready, ({ account }) => account)
  for (const [account, own] of byAccount) {
    const few = own.sort((one, other) => one.due - other.due).slice(0, Math.max(0, freeFor(account)))
    if (few.length > 0) byAccount.set(account, few)
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
      // Those that follow have used even more.
      if (slowLeft <= 0) break
      slowLeft -= 1
    }
    chosen.push(one)
    // To the end of those that have used as much.
    byAccount.delete(account)
    if (own.length > 0) byAccount.set(account, own)
  }
  return chosen
}
