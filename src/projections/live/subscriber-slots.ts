/** Limits how many clients follow live events. Each client has a limit, so that no client takes all places. */
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'

/** An account that is signed in, or the network address of clients that are not. */
export type Client = `account ${number}` | `address ${string}`

export interface SubscriberLimits {
  /** The limit for all clients together. Each costs a connection, and a check of its rights when rights change. */
  subscribers: number
  /** The limit for one account: a person may have several pages open, a program may follow several repositories. */
  perAccount: number
  /** The limit for one address without sign-in: the people of an office may share an address. */
  perAddress: number
}

export function createSubscriberSlots({ subscribers, perAccount, perAddress }: SubscriberLimits) {
  let all = 0
  const byClient = new Map<Client, number>()
  return {
    /**
     * Takes a place.
     * @throws Refused when the client has all of its places (tooManyRequests), or no place is left (unavailable)
     */
    take(client: Client): void {
      const taken = byClient.get(client) ?? 0
      if (taken >= (client.startsWith('account') ? perAccount : perAddress)) {
        limitReached('live_histories')
        throw new Refused(refuse.tooManyRequests(`you follow ${taken} live histories already; close one`))
      }
      if (all >= subscribers) {
        limitReached('live_histories')
        throw new Refused(refuse.unavailable('too many follow live events already; try again'))
      }
      byClient.set(client, taken + 1)
      all += 1
    },
    /** Frees a place. Call it once for each place that was taken. */
    free(client: Client): void {
      const taken = byClient.get(client) ?? 0
      if (taken > 1) byClient.set(client, taken - 1)
      else byClient.delete(client)
      all -= 1
    },
  }
}
