/**
 * A budget divides a limited resource (bytes, connections, slots) among clients, so that no client can use all of it.
 * It only counts: when it is used up, the caller refuses, waits or evicts.
 */

export interface BudgetLimits {
  /** The amount that all clients together may hold. */
  all: number
  /** The amount that one network (see `networkOf`) or other key may hold. */
  perNetwork: number
}

export interface Budget {
  /**
   * Returns which limit this amount would exceed: the network's or the total; undefined when it fits. An amount larger than
   * a share still fits when nothing else is held.
   */
  lacking(network: string, amount: number): 'network' | 'all' | undefined
  /** Takes the amount, even above the limit. Returns a function that releases it once; further calls do nothing. */
  take(network: string, amount: number): () => void
  /** The amount that a network holds; without a name, the total. */
  held(network?: string): number
  /** The network that holds the largest amount. */
  largest(): string | undefined
}

export function createBudget({ all, perNetwork }: BudgetLimits): Budget {
  let held = 0
  const byNetwork = new Map<string, number>()

  function add(network: string, amount: number): void {
    held += amount
    const own = (byNetwork.get(network) ?? 0) + amount
    if (own > 0) byNetwork.set(network, own)
    else byNetwork.delete(network)
  }

  return {
    lacking(network, amount) {
      const own = byNetwork.get(network) ?? 0
      if (own > 0 && own + amount > perNetwork) return 'network'
      return held > 0 && held + amount > all ? 'all' : undefined
    },
    take(network, amount) {
      add(network, amount)
      let isReleased = false
      return () => {
        if (isReleased) return
        isReleased = true
        add(network, -amount)
      }
    },
    held: (network) => (network === undefined ? held : (byNetwork.get(network) ?? 0)),
    largest() {
      let most: [network: string | undefined, amount: number] = [undefined, 0]
      for (const one of byNetwork) if (one[1] > most[1]) most = one
      return most[0]
    },
  }
}
