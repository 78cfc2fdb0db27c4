/** Reads packs that are small enough to become loose objects. */
import type { Readable } from 'node:stream'
import { createInflate } from 'node:zlib'

/** git makes loose objects of packs with fewer objects: a pack costs three flushes to disk, each loose object one. */
export const UNPACK_LIMIT = 10
const MAX_BYTES = 1024 * 1024
const MAX_UNFOLDED = 32 * 1024 * 1024

const HEADER_BYTES = 12
const TRAILER_BYTES = 20
const OFS_DELTA = 6
const REF_DELTA = 7

export interface SentPack {
  /** How many objects it says that it has. */
  count: number
  /**
   * The ids on which its deltas build, as far as they are named by id: nearly always objects that the pack does not
   * have. Undefined when the pack is not small, or is broken: then git has to index it.
   */
  bases: readonly string[] | undefined
}

/** Reads a pack of `size` bytes, or only its header when it is not small. A stream without a pack has no objects. */
export async function readSentPack(pack: Readable, size: number): Promise<SentPack> {
  const most = size <= MAX_BYTES ? size : HEADER_BYTES
  const chunks: Buffer[] = []
  let held = 0
  for await (const chunk of pack) {
    chunks.push(chunk)
    held += chunk.length
    if (held >= most) break
  }
  const bytes = Buffer.concat(chunks)
  if (bytes.length < HEADER_BYTES) return { count: 0, bases: [] }
  const count = bytes.readUInt32BE(8)
  const isSmall = size <= MAX_BYTES && count < UNPACK_LIMIT
  return { count, bases: isSmall ? await basesIn(bytes, count).catch(() => undefined) : undefined }
}

async function basesIn(bytes: Buffer, count: number): Promise<string[] | undefined> {
  const bases: string[] = []
  let at = HEADER_BYTES
  let left = MAX_UNFOLDED
  const byte = () => bytes.readUInt8(at++)
  for (let i = 0; i < count; i++) {
    let next = byte()
    const type = (next >> 4) & 7
    while (next >= 0x80) next = byte()
    if (type === OFS_DELTA) while (byte() >= 0x80);
    if (type === REF_DELTA) {
      bases.push(bytes.toString('hex', at, at + 20))
      at += 20
    }
    const content = await inflated(bytes.subarray(at, -TRAILER_BYTES), left)
    if (content === undefined) return undefined
    at += content.taken
    left -= content.size
  }
  return bases
}

/** How many bytes a compressed content takes, and has; undefined when it has more than `most`. @throws when it is broken */
async function inflated(bytes: Buffer, most: number): Promise<{ taken: number; size: number } | undefined> {
  const inflate = createInflate()
  inflate.end(bytes)
  let size = 0
  for await (const chunk of inflate) {
    size += chunk.length
    if (size > most) return undefined
  }
  return { taken: inflate.bytesWritten, size }
}
