/** Long work in pieces: between two pieces, whoever's they are, the event loop serves everyone else. */

/** Those who wait for their next piece, by key; the key whose turn it is comes first. */
const waiting = new Map<string, (() => void)[]>()
let isScheduled = false

/**
 * Resolves when one piece of long work may be done. Only one is done in each turn of the event loop, and keys (a client's
 * network, for example) take turns, so that who has much to do waits behind itself. A piece should take a few
 * milliseconds.
 */
export function nextPiece(key: string): Promise<void> {
  return new Promise((resolve) => {
    const queue = waiting.get(key)
    if (queue === undefined) waiting.set(key, [resolve])
    else queue.push(resolve)
    if (isScheduled) return
    isScheduled = true
    setImmediate(letOneGo)
  })
}

function letOneGo(): void {
  const [first] = waiting
  isScheduled = first !== undefined
  if (first === undefined) return
  const [key, queue] = first
  const next = queue.shift()
  // To the end of the line.
  waiting.delete(key)
  if (queue.length > 0) waiting.set(key, queue)
  next?.()
  setImmediate(letOneGo)
}
