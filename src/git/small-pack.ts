/** Reads packs that are small enough to become loose objects. */
import type { Readable } from 'node:stream'
import { createInflate, inflateSync } from 'node:zlib'
import type { ObjectType } from './loose-objects.ts'

/** git makes loose objects of packs with fewer objects: a pack costs three flushes to disk, each loose object one. */
export const UNPACK_LIMIT = 10
const MAX_BYTES = 1024 * 1024
const MAX_UNFOLDED = 32 * 1024 * 1024
/** Contents are held while the push waits for git, so only as many bytes as most small pushes have. */
const MAX_HELD = 128 * 1024
/** Larger contents are unfolded in parts, so that they do not hold the event loop. */
const MAX_AT_ONCE = 64 * 1024

const HEADER_BYTES = 12
const TRAILER_BYTES = 20
const OFS_DELTA = 6
const REF_DELTA = 7
const TYPES = new Map<number, ObjectType>([
  [1, 'commit'],
  [2, 'tree'],
  [3, 'blob'],
])

/** An object as it is in a pack. */
export interface PackedObject {
  /** Where in the pack it begins, in bytes. */
  at: number
  /** Undefined for a delta: it is of the type of its base. */
  type: ObjectType | undefined
  /** Of a delta: where in the pack its base begins, or the id of the base. */
  base: number | string | undefined
  content: Buffer
}

export interface SentPack {
  /** How many objects it says that it has. */
  count: number
  /**
   * The ids on which its deltas build, as far as they are named by id: nearly always objects that the pack does not
   * have. Undefined when the pack is not small, or is broken: then git has to index it.
   */
  bases: readonly string[] | undefined
  /** All of its objects. Undefined when they have many bytes, when one is a tag, or when `bases` is. */
  objects: readonly PackedObject[] | undefined
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
  if (bytes.length < HEADER_BYTES) return { count: 0, bases: [], objects: [] }
  const count = bytes.readUInt32BE(8)
  const isSmall = size <= MAX_BYTES && count < UNPACK_LIMIT
  const read = isSmall ? await readObjects(bytes, count).catch(() => undefined) : undefined
  return { count, bases: read?.bases, objects: read?.objects }
}

/** Undefined when the objects unfold to too much. @throws when the pack is broken */
async function readObjects(bytes: Buffer, count: number): Promise<Omit<SentPack, 'count'> | undefined> {
  const bases: string[] = []
  let objects: PackedObject[] | undefined = []
  let at = HEADER_BYTES
  let unfolded = 0
  const byte = () => bytes.readUInt8(at++)
  for (let i = 0; i < count; i++) {
    const start = at
    let next = byte()
    const type = (next >> 4) & 7
    let size = next & 15
    for (let scale = 16; next >= 0x80; scale *= 128) {
      next = byte()
      size += (next & 127) * scale
    }
    let base: PackedObject['base']
    if (type === OFS_DELTA) {
      next = byte()
      let distance = next & 127
      while (next >= 0x80) {
        next = byte()
        distance = (distance + 1) * 128 + (next & 127)
      }
      base = start - distance
    }
    if (type === REF_DELTA) {
      base = bytes.toString('hex', at, at + 20)
      bases.push(base)
      at += 20
    }
    const rest = bytes.subarray(at, -TRAILER_BYTES)
    const content =
      size <= MAX_AT_ONCE ? inflatedNow(rest, size) : await inflated(rest, MAX_UNFOLDED - unfolded)
    if (content === undefined) return undefined
    at += content.taken
    unfolded += content.size
    const isUsual = base !== undefined || TYPES.has(type)
    if (unfolded > MAX_HELD || content.bytes === undefined || !isUsual) objects = undefined
    else objects?.push({ at: start, type: TYPES.get(type), base, content: content.bytes })
  }
  return { bases, objects }
}

interface Inflated {
  /** How many bytes it takes in the pack, and has. */
  taken: number
  size: number
  bytes?: Buffer
}

/** A content of at most `size` bytes. @throws when it is broken, or has not just as many bytes */
function inflatedNow(compressed: Buffer, size: number): Inflated {
  const result: unknown = inflateSync(compressed, { info: true, maxOutputLength: Math.max(1, size) })
  if (!isResult(result) || result.buffer.length !== size) throw new Error('the object has another size')
  return { taken: result.engine.bytesWritten, size, bytes: result.buffer }
}

/** What zlib gives with `info`, of which its types do not know. */
function isResult(value: unknown): value is { buffer: Buffer; engine: { bytesWritten: number } } {
  return typeof value === 'object' && value !== null && 'buffer' in value && 'engine' in value
}

/** How large a content is, without its bytes; undefined when it has more than `most`. @throws when it is broken */
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
