/** Reads the beginnings of the objects in a pack: gitformat-pack(5). */
import { inflateSync } from 'node:zlib'

export const PACK_HEADER_BYTES = 12
export const PACK_TRAILER_BYTES = 20
/** Maximum size of an object's header, in bytes: type and size, and the offset or the id of a base. */
export const MAX_ENTRY_BYTES = 32
/** Maximum size of content to inflate at once, in bytes. Larger content would block the event loop. */
export const MAX_AT_ONCE = 64 * 1024
const OFS_DELTA = 6
const REF_DELTA = 7

/** The beginning of an object in a pack. */
export interface PackEntry {
  type: number
  /** Bytes of its content, which is compressed; for a delta, those of the delta. */
  size: number
  /** For a delta: the distance to its base before it, or the id of the base. */
  base: number | string | undefined
  /** Offset of the content. */
  contentAt: number
}

/** @throws RangeError when the bytes end too early */
export function entryAt(bytes: Buffer, start: number): PackEntry {
  let at = start
  const byte = () => bytes.readUInt8(at++)
  let next = byte()
  const type = (next >> 4) & 7
  let size = next & 15
  for (let scale = 16; next >= 0x80; scale *= 128) {
    next = byte()
    size += (next & 127) * scale
  }
  let base: PackEntry['base']
  if (type === OFS_DELTA) {
    next = byte()
    base = next & 127
    while (next >= 0x80) {
      next = byte()
      base = (base + 1) * 128 + (next & 127)
    }
  }
  if (type === REF_DELTA) {
    if (bytes.length < at + 20) throw new RangeError('the id of a base is incomplete')
    base = bytes.toString('hex', at, at + 20)
    at += 20
  }
  return { type, size, base, contentAt: at }
}

/** Returns the size of a delta's result, as its header declares it. @throws RangeError for other data */
export function sizeMadeBy(delta: Buffer): number {
  let at = 0
  const number = () => {
    let total = 0
    for (let scale = 1; ; scale *= 128) {
      const next = delta.readUInt8(at++)
      total += (next & 127) * scale
      if (next < 128) return total
    }
  }
  // The first number is the size of the base.
  number()
  return number()
}

/** Inflates content of `size` bytes. `taken`: its compressed size. @throws for broken data, or another size */
export function inflatedNow(compressed: Buffer, size: number): { taken: number; bytes: Buffer } {
  // Without a size for the parts of its output, zlib takes 16 KiB for each object.
  const chunkSize = Math.max(64, size + 1)
  const result: unknown = inflateSync(compressed, {
    info: true,
    maxOutputLength: Math.max(1, size),
    chunkSize,
  })
  if (!isResult(result) || result.buffer.length !== size) throw new Error('the object has another size')
  return { taken: result.engine.bytesWritten, bytes: result.buffer }
}

/** The result of zlib with `info`, which its types lack. */
function isResult(value: unknown): value is { buffer: Buffer; engine: { bytesWritten: number } } {
  return typeof value === 'object' && value !== null && 'buffer' in value && 'engine' in value
}
