/**
 * The budget: shares out something limited (bytes, connections, slots) among clients, so that no client can take all of
 * it. It only counts: when something is lacking, the caller refuses, waits, or makes room.
 */

export interface BudgetLimits {
  /** What all clients together may hold. */
  all: number
  /** What the clients of one network may hold, as `networkOf` names it; or whatever else shares are given to. */
  perNetwork: number
}

export interface Budget {
  /**
   * Who holds too much for this amount to be given: the network itself, or all together; undefined when there is room.
   * Something larger than a share still fits when nothing else is held.
   */
  lacking(network: string, amount: number): 'network' | 'all' | undefined
  /** Takes the amount, even when it is too much. The returned function gives it back; a second call does nothing. */
  take(network: string, amount: number): () => void
  /** What a network holds; without a name, what all hold. */
  held(network?: string): number
  /** The network that holds most. */
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
      let given = false
      return () => {
        if (given) return
        given = true
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
