/** Applies the deltas of packs: gitformat-pack(5), "Deltified representation". */

/**
 * Applies a delta to its base; undefined when the delta is broken, has another base, or results in more than `most` bytes.
 */
export function applyDelta(base: Buffer, delta: Buffer, most: number): Buffer | undefined {
  try {
    return apply(base, delta, most)
  } catch {
    return undefined
  }
}

/** @throws RangeError */
function apply(base: Buffer, delta: Buffer, most: number): Buffer {
  let at = 0
  const byte = () => delta.readUInt8(at++)
  const size = () => {
    let total = 0
    for (let scale = 1; ; scale *= 128) {
      const next = byte()
      total += (next & 127) * scale
      if (next < 128) return total
    }
  }
  /** Reads a number without its zero bytes: each of the bits marks whether its byte is present. */
  const sparse = (bits: number, bytes: number) => {
    let total = 0
    for (let i = 0; i < bytes; i++) if ((bits >> i) & 1) total += byte() * 256 ** i
    return total
  }
  if (size() !== base.length) throw new RangeError('the delta is for another base')
  const length = size()
  if (length > most) throw new RangeError('the result is too large')
  const result = Buffer.alloc(length)
  let done = 0
  const take = (source: Buffer, from: number, count: number) => {
    if (from + count > source.length || done + count > length)
      throw new RangeError('the delta leaves its bounds')
    done += source.copy(result, done, from, from + count)
  }
  while (at < delta.length) {
    const step = byte()
    if (step >= 0x80) {
      const from = sparse(step, 4)
      take(base, from, sparse(step >> 4, 3) || 0x10000)
    } else if (step > 0) {
      take(delta, at, step)
      at += step
    } else throw new RangeError('the delta has an unknown step')
  }
  if (done !== length) throw new RangeError('the delta ends too early')
  return result
}
