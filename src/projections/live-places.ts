/** The places of clients that follow live events: each client has a limit, so that none takes all of them. */
import { Refused, refuse } from '../refusal.ts'

/** An account that is signed in, or the address of those that are not. */
export type Client = `account ${number}` | `address ${string}`

export interface PlaceLimits {
  /** Of all clients together: a connection each, and as many questions about rights when these change. */
  subscribers: number
  /** Of one account: a person has pages open, a program a stream for each repository that it follows. */
  perAccount: number
  /** Of one address, for those who have not signed in: an office may share one. */
  perAddress: number
}

export interface Places {
  /** @throws Refused when the client has all of its places (tooManyRequests), or no place is left (unavailable) */
  take(client: Client): void
  /** To be called once for each place that was taken. */
  free(client: Client): void
}

export function createPlaces({ subscribers, perAccount, perAddress }: PlaceLimits): Places {
  let all = 0
  const byClient = new Map<Client, number>()
  return {
    take(client) {
      const taken = byClient.get(client) ?? 0
      if (taken >= (client.startsWith('account') ? perAccount : perAddress)) {
        throw new Refused(refuse.tooManyRequests(`you follow ${taken} live histories already; close one`))
      }
      if (all >= subscribers) {
        throw new Refused(refuse.unavailable('too many follow live events already; try again'))
      }
      byClient.set(client, taken + 1)
      all += 1
    },
    free(client) {
      const taken = byClient.get(client) ?? 0
      if (taken > 1) byClient.set(client, taken - 1)
      else byClient.delete(client)
      all -= 1
    },
  }
}
