/** Limits the subscribers of live events, in total and per client, so that one client cannot take all slots. */
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'

/** A signed-in account, or the network address of clients without sign-in. */
export type Client = `account ${number}` | `address ${string}`

export interface SubscriberLimits {
  /** Limit for all clients. Each costs a connection, and a permission check when permissions change. */
  subscribers: number
  /** Limit per account: a user may have several pages open, a program may follow several repositories. */
  perAccount: number
  /** Limit per address without sign-in: an office may share an address. */
  perAddress: number
}

export function createSubscriberSlots({ subscribers, perAccount, perAddress }: SubscriberLimits) {
  let all = 0
  const byClient = new Map<Client, number>()
  return {
    /**
     * Takes a slot.
     * @throws Refused when the client has used its slots (tooManyRequests) or all slots are taken (unavailable)
     */
    take(client: Client): void {
      const taken = byClient.get(client) ?? 0
      if (taken >= (client.startsWith('account') ? perAccount : perAddress)) {
        limitReached('live_histories')
        throw new Refused(refuse.tooManyRequests(`you already follow ${taken} live histories; close one`))
      }
      if (all >= subscribers) {
        limitReached('live_histories')
        throw new Refused(refuse.unavailable('too many clients follow live events; try again'))
      }
      byClient.set(client, taken + 1)
      all += 1
    },
    /** Releases a slot. Call it once per slot taken. */
    free(client: Client): void {
      const taken = byClient.get(client) ?? 0
      if (taken > 1) byClient.set(client, taken - 1)
      else byClient.delete(client)
      all -= 1
    },
  }
}
