/**
 * Shares out the event loop. What is asked for in one turn of the loop is done in it while there is time; the rest waits
 * for later turns, and between two turns the loop serves everyone else. Who has used much of it lately gets less of each
 * turn, and comes after those who have used less.
 */
import { createRecentUse } from './recent-use.ts'

/** When this much of a turn is gone, in milliseconds, nothing further begins in it. */
const TURN_MS = 3
/** The same for a key that has used much: the rest of each turn is for the others. */
const TURN_OF_MUCH_MS = 1
const HALF_LIFE_MS = 1000
/** To have used more than this is much, in milliseconds: a tenth of all time for some seconds. */
const MUCH_MS = 150

export interface LoopTurns {
  /**
   * Does a piece of work now, or in a later turn of the event loop when this one has no time left. `key` is whose work it
   * is: a client's network or account, for example. What it takes is counted, so that who has much to do waits behind
   * itself. The work ends with its microtasks; it should take a few milliseconds at most.
   */
  workInTurn(key: string, work: () => void): void
  /** Resolves when one piece of long work may be done, never in this turn of the loop. */
  nextPiece(key: string): Promise<void>
  /** Whose work is done now. Undefined when that is not known: after a wait for something that is not on the loop. */
  workingFor(): string | undefined
  /**
   * Goes on as work of `key` with what the turn of `from` began, for somebody who may go away: `gone` makes the signal
   * that is aborted then. It is called once at most, when something takes long. Somebody else's turn is not taken over:
   * those who have waited for the same go on together, and each must get its own.
   */
  goOnAs(from: string, key: string, gone: (() => AbortSignal) | undefined, work: () => void): void
  /** Says that others may go on in this turn, too: from here on nothing ends with who is gone. */
  goOnForOthers(): void
  /** Aborted when nobody waits any more for what is done now. Undefined when it is done in any case. */
  workingUntil(): AbortSignal | undefined
  /** What a promise gives. Who waits for it goes on in a turn of that key, as `workInTurn` does, for the same somebody. */
  waitFor<T>(key: string, promise: Promise<T>): Promise<T>
}

interface Work {
  key: string
  since: number
  /** Whether somebody has gone on in it as its own. */
  isTaken: boolean
  /** Tells when nobody waits for it any more. */
  gone: Gone | undefined
}

interface Gone {
  make: () => AbortSignal
  signal?: AbortSignal
}

/** @param now milliseconds @param later calls what it gets in the next turn of the loop */
export function createLoopTurns(
  now: () => number = () => performance.now(),
  later: (next: () => void) => void = setImmediate,
): LoopTurns {
  const use = createRecentUse(HALF_LIFE_MS, now)
  /** What waits for a later turn, by key, in order of arrival. */
  const waiting = new Map<string, (() => void)[]>()
  /** When the first work of this turn of the loop began; undefined before it. */
  let began: number | undefined
  /** Whose work is being done, and since when. */
  let current: Work | undefined

  const hasUsedMuch = (key: string) => use.of(key) > MUCH_MS
  const hasTime = (key: string) =>
    began === undefined || now() - began < (hasUsedMuch(key) ? TURN_OF_MUCH_MS : TURN_MS)

  function beginTurn(): void {
    if (began !== undefined) return
    began = now()
    later(nextTurn)
  }

  function nextTurn(): void {
    began = undefined
    if (waiting.size === 0) return
    beginTurn()
    const first = use.least(waiting.keys())
    if (first !== undefined) letGo(first)
  }

  function letGo(key: string): void {
    const queue = waiting.get(key) ?? []
    const next = queue.shift()
    // To the end of the line, which counts among those that have used as much.
    waiting.delete(key)
    if (queue.length > 0) waiting.set(key, queue)
    if (next !== undefined) work(key, next, goOn)
  }

  function goOn(): void {
    const first = use.least(waiting.keys())
    if (first !== undefined && hasTime(first)) letGo(first)
  }

  /** Does it, counts what it takes, and calls `then`. */
  function work(key: string, piece: () => void, then?: () => void): void {
    count()
    const own: Work = { key, since: now(), isTaken: false, gone: undefined }
    current = own
    // A tick that a microtask asks for comes when there are no microtasks left: then its work is done.
    queueMicrotask(() =>
      process.nextTick(() => {
        if (current === own) count()
        then?.()
      }),
    )
    piece()
  }

  /** Whose work ends, or goes on in the name of another key, has used its time. */
  function count(): void {
    if (current !== undefined) use.add(current.key, now() - current.since)
    current = undefined
  }

  function wait(key: string, piece: () => void): void {
    const queue = waiting.get(key)
    if (queue === undefined) waiting.set(key, [piece])
    else queue.push(piece)
  }

  function workInTurn(key: string, piece: () => void): void {
    const isFirst = waiting.size === 0 || !(waiting.has(key) || hasUsedMuch(key))
    const goesNow = isFirst && hasTime(key)
    beginTurn()
    if (goesNow) work(key, piece)
    else wait(key, piece)
  }

  /** Does a piece in the turn that is there, as somebody's own. */
  function own(gone: Gone | undefined, piece: () => void): void {
    if (current !== undefined) {
      current.isTaken = true
      current.gone = gone
    }
    piece()
  }

  /** Does it as `workInTurn` does, but not before the work of somebody else than `from` is done. */
  function goOnIn(key: string, from: string | undefined, piece: () => void): void {
    const isFree = current === undefined || (current.key === from && !current.isTaken)
    if (isFree) workInTurn(key, piece)
    else {
      beginTurn()
      wait(key, piece)
    }
  }

  return {
    workInTurn,
    nextPiece(key) {
      return new Promise((resolve) => {
        beginTurn()
        wait(key, resolve)
      })
    },
    workingFor: () => current?.key,
    goOnAs(from, key, make, piece) {
      const gone = make && { make }
      if (current?.key === from && from === key && !current.isTaken) own(gone, piece)
      else goOnIn(key, from, () => own(gone, piece))
    },
    goOnForOthers() {
      if (current !== undefined) current.gone = undefined
    },
    workingUntil() {
      const gone = current?.gone
      if (gone !== undefined) gone.signal ??= gone.make()
      return gone?.signal
    },
    waitFor(key, promise) {
      const gone = current?.gone
      return new Promise((resolve, reject) => {
        const goOn = (next: () => void) => goOnIn(key, undefined, () => own(gone, next))
        promise.then(
          (value) => goOn(() => resolve(value)),
          (error: unknown) => goOn(() => reject(error)),
        )
      })
    },
  }
}

/** Of this process: it has one event loop. */
export const { workInTurn, nextPiece, workingFor, goOnAs, goOnForOthers, workingUntil, waitFor } =
  createLoopTurns()
