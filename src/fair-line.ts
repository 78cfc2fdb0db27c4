/**
 * A line with a limited number of places, shared out evenly among keys. Who has many in it takes the places that are
 * free, and gives them back when others come: so no number of places that some hold keeps another one out, as long as
 * any key has more than one. Only `next` takes longer the more keys there are: it looks at each.
 */

interface LineLimits {
  places: number
  /** The most places of one key. */
  perKey: number
}

interface FairLine<Item> {
  /**
   * Puts an item behind those of its key. In a full line it takes the place of the last one of the key that has most,
   * when it leaves that key as many as its own gets: nobody loses the only place. Undefined when it is in the line;
   * otherwise whose places are full, those of the key or all.
   */
  join(key: string, item: Item): 'own' | 'all' | undefined
  /** Takes an item out. */
  leave(key: string, item: Item): void
  /**
   * Takes out the first item of the key of which `held` is least, among those that may start. Of several keys it is the
   * one that has not had a turn for longest.
   */
  next(mayStart: (key: string) => boolean, held: (key: string) => number): Item | undefined
  /** How many are in the line. */
  length(): number
}

export function createFairLine<Item extends { turnOut(): void }>({
  places,
  perKey,
}: LineLimits): FairLine<Item> {
  let length = 0
  /** Those in the line, by key, in order of arrival. The key that had a turn goes to the end. */
  const queues = new Map<string, Item[]>()
  /** The keys that have so many in the line. So the largest one is found without a look at each. */
  const keysWith: Set<string>[] = []
  let most = 0

  /** Notes that a key has one more or one less. */
  function count(key: string, before: number, now: number): void {
    length += now - before
    keysWith[before]?.delete(key)
    const same = keysWith[now] ?? new Set()
    keysWith[now] = same
    if (now > 0) same.add(key)
    else queues.delete(key)
    if (now > most || keysWith[most]?.size === 0) most = now
  }

  function remove(key: string, queue: Item[], index: number): Item | undefined {
    const [item] = queue.splice(index, 1)
    count(key, queue.length + 1, queue.length)
    return item
  }

  function leastHeld(mayStart: (key: string) => boolean, held: (key: string) => number): string | undefined {
    let best: { key: string; count: number } | undefined
    for (const key of queues.keys()) {
      if (!mayStart(key)) continue
      const count = held(key)
      if (best === undefined || count < best.count) best = { key, count }
    }
    return best?.key
  }

  function turnOutLast(key: string): void {
    const queue = queues.get(key)
    if (queue !== undefined) remove(key, queue, queue.length - 1)?.turnOut()
  }

  return {
    join(key, item) {
      const queue = queues.get(key) ?? []
      if (queue.length >= perKey) return 'own'
      if (length >= places) {
        if (queue.length + 1 >= most) return queue.length === 0 ? 'all' : 'own'
        const [largest = ''] = keysWith[most] ?? []
        turnOutLast(largest)
      }
      queue.push(item)
      queues.set(key, queue)
      count(key, queue.length - 1, queue.length)
      return undefined
    },
    leave(key, item) {
      const queue = queues.get(key)
      const index = queue?.indexOf(item) ?? -1
      if (queue !== undefined && index !== -1) remove(key, queue, index)
    },
    next(mayStart, held) {
      const key = leastHeld(mayStart, held)
      const queue = key === undefined ? undefined : queues.get(key)
      if (key === undefined || queue === undefined) return undefined
      // To the end of the keys.
      queues.delete(key)
      queues.set(key, queue)
      return remove(key, queue, 0)
    },
    length: () => length,
  }
}
