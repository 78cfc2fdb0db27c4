/**
 * Shares out the event loop. What is asked for in one turn of the loop is done in it while there is time; the rest waits
 * for later turns, and between two turns the loop serves everyone else.
 */

/** When this much of a turn is gone, in milliseconds, nothing further begins in it. */
const TURN_MS = 3

/** What waits for a later turn, by key; the key whose turn it is comes first. */
const waiting = new Map<string, (() => void)[]>()
/** When the first work of this turn of the loop began; undefined before it. */
let began: number | undefined

/**
 * Does a piece of work now, or in a later turn of the event loop when this one has no time left. Keys (a client's network,
 * for example) take turns, so that who has much to do waits behind itself. The work ends with its microtasks; it should
 * take a few milliseconds at most.
 */
export function workInTurn(key: string, work: () => void): void {
  if (waiting.size === 0 && hasTime()) {
    beginTurn()
    work()
  } else wait(key, work)
}

/** Resolves when one piece of long work may be done, never in this turn of the loop. */
export function nextPiece(key: string): Promise<void> {
  return new Promise((resolve) => {
    beginTurn()
    wait(key, resolve)
  })
}

const hasTime = () => began === undefined || performance.now() - began < TURN_MS

function beginTurn(): void {
  if (began !== undefined) return
  began = performance.now()
  setImmediate(nextTurn)
}

function wait(key: string, work: () => void): void {
  const queue = waiting.get(key)
  if (queue === undefined) waiting.set(key, [work])
  else queue.push(work)
}

function nextTurn(): void {
  began = undefined
  if (waiting.size === 0) return
  beginTurn()
  letOneGo()
}

function letOneGo(): void {
  const [first] = waiting
  if (first === undefined) return
  const [key, queue] = first
  const next = queue.shift()
  // To the end of the line.
  waiting.delete(key)
  if (queue.length > 0) waiting.set(key, queue)
  // A tick that a microtask asks for comes when there are no microtasks left: then its work is done.
  queueMicrotask(() => process.nextTick(goOn))
  next?.()
}

function goOn(): void {
  if (hasTime()) letOneGo()
}
