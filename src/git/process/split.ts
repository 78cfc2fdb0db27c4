/**
 * Splits a stream of chunks: calls `found` with each part that ends with the byte `end`, without that byte. Only the first
 * `bytesHeld(first byte)` bytes of a part are kept.
 */
export function splitAt(
  end: number,
  found: (part: Buffer) => void,
  bytesHeld: (first: number) => number = () => Number.POSITIVE_INFINITY,
): (chunk: Buffer) => void {
  /** The beginning of an incomplete part. */
  let held: Buffer[] = []
  let left = 0

  return (chunk) => {
    let start = 0
    while (start < chunk.length) {
      const next = chunk.indexOf(end, start)
      const stop = next === -1 ? chunk.length : next
      if (held.length === 0) left = bytesHeld(chunk[start] ?? end)
      const part = chunk.subarray(start, Math.min(stop, start + left))
      if (next === -1) {
        // Copy the part, so that the large chunk doesn't stay in memory.
        if (part.length > 0) held.push(Buffer.from(part))
        left -= part.length
        return
      }
      found(held.length === 0 ? part : Buffer.concat([...held, part]))
      held = []
      start = next + 1
    }
  }
}
