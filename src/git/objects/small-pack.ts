/** Reads packs that are small enough to become loose objects. */
import type { Readable } from 'node:stream'
import { createInflate } from 'node:zlib'
import type { ObjectType } from './loose-objects.ts'
import { entryAt, inflatedNow, MAX_AT_ONCE, PACK_HEADER_BYTES, PACK_TRAILER_BYTES } from './pack-entries.ts'

/** git makes loose objects of packs with fewer objects: a pack costs three flushes to disk, each loose object one. */
export const UNPACK_LIMIT = 10
const MAX_BYTES = 1024 * 1024
const MAX_INFLATED = 32 * 1024 * 1024
/**
 * Maximum size of the held contents, in bytes: they stay in memory while the push waits for git. Most small pushes have
 * less.
 */
const MAX_HELD = 128 * 1024

const TYPES = new Map<number, ObjectType>([
  [1, 'commit'],
  [2, 'tree'],
  [3, 'blob'],
])

/** An object as it is in a pack. */
export interface PackedObject {
  /** Offset in the pack, in bytes. */
  at: number
  /** Undefined for a delta: it is of the type of its base. */
  type: ObjectType | undefined
  /** For a delta: the offset of its base in the pack, or the id of the base. */
  base: number | string | undefined
  content: Buffer
}

export interface SentPack {
  /** Number of objects that the pack declares. */
  count: number
  /**
   * The bases of its deltas that are named by id: nearly always objects outside the pack. Undefined when the pack is
   * large or broken: then git has to index it.
   */
  bases: readonly string[] | undefined
  /** All of its objects. Undefined when they have many bytes, when one is a tag, or when `bases` is. */
  objects: readonly PackedObject[] | undefined
}

/** Reads a pack of `size` bytes, or only its header when it is not small. A stream without a pack has no objects. */
export async function readSentPack(pack: Readable, size: number): Promise<SentPack> {
  const most = size <= MAX_BYTES ? size : PACK_HEADER_BYTES
  const chunks: Buffer[] = []
  let held = 0
  for await (const chunk of pack) {
    chunks.push(chunk)
    held += chunk.length
    if (held >= most) break
  }
  const bytes = Buffer.concat(chunks)
  if (bytes.length < PACK_HEADER_BYTES) return { count: 0, bases: [], objects: [] }
  const count = bytes.readUInt32BE(8)
  const isSmall = size <= MAX_BYTES && count < UNPACK_LIMIT
  const read = isSmall ? await readObjects(bytes, count).catch(() => undefined) : undefined
  return { count, bases: read?.bases, objects: read?.objects }
}

/** Undefined when the inflated objects are too large. @throws for a broken pack */
async function readObjects(bytes: Buffer, count: number): Promise<Omit<SentPack, 'count'> | undefined> {
  const bases: string[] = []
  let objects: PackedObject[] | undefined = []
  let at = PACK_HEADER_BYTES
  let inflatedBytes = 0
  for (let i = 0; i < count; i++) {
    const start = at
    const { type, size, base: given, contentAt } = entryAt(bytes, start)
    const base = typeof given === 'number' ? start - given : given
    if (typeof base === 'string') bases.push(base)
    const rest = bytes.subarray(contentAt, -PACK_TRAILER_BYTES)
    const content =
      size <= MAX_AT_ONCE
        ? { ...inflatedNow(rest, size), size }
        : await inflated(rest, MAX_INFLATED - inflatedBytes)
    if (content === undefined) return undefined
    at = contentAt + content.taken
    inflatedBytes += content.size
    const isUsual = base !== undefined || TYPES.has(type)
    if (inflatedBytes > MAX_HELD || content.bytes === undefined || !isUsual) objects = undefined
    else objects?.push({ at: start, type: TYPES.get(type), base, content: content.bytes })
  }
  return { bases, objects }
}

interface Inflated {
  /** Compressed and inflated size, in bytes. */
  taken: number
  size: number
  bytes?: Buffer
}

/** Returns the compressed and inflated size of content; undefined above `most` bytes. @throws for broken data */
async function inflated(compressed: Buffer, most: number): Promise<Inflated | undefined> {
  const inflate = createInflate()
  inflate.end(compressed)
  let size = 0
  for await (const chunk of inflate) {
    size += chunk.length
    if (size > most) return undefined
  }
  return { taken: inflate.bytesWritten, size }
}
