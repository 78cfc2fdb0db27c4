/** Long loops over many small things, in pieces: others use the event loop between two of them. */
import { nextPiece } from './long-work.ts'

/** How long a piece may take, in milliseconds. */
const PIECE_MS = 3

export interface Pieces {
  /** Whether this piece has taken its time. */
  isOver(): boolean
  /** Waits for the next one. Call it when this one is over. */
  next(): Promise<void>
}

/** `key`: whose work it is, as in `nextPiece`. */
export function piecesOf(key: string): Pieces {
  let began = performance.now()
  return {
    isOver: () => performance.now() - began > PIECE_MS,
    async next() {
      await nextPiece(key)
      began = performance.now()
    },
  }
}

/** Calls `work` for each item in order. What takes less than a piece is done without a wait. */
export async function inPieces<T>(key: string, items: Iterable<T>, work: (item: T) => void): Promise<void> {
  const pieces = piecesOf(key)
  for (const item of items) {
    work(item)
    if (pieces.isOver()) await pieces.next()
  }
}

/** Makes a function to call between two things: it resolves at once, or when the next piece may begin. */
export function restsFor(key: string): () => Promise<void> {
  const pieces = piecesOf(key)
  return async () => {
    if (pieces.isOver()) await pieces.next()
  }
}
