/** A tiny pack with one huge object: a blob, and deltas that repeatedly double it. */
import { createHash } from 'node:crypto'
import { deflateSync } from 'node:zlib'

const BLOB = 3
const OFFSET_DELTA = 6
const FIRST_BYTES = 1024 * 1024
/** Maximum bytes that one copy instruction of a delta copies. */
const MAX_COPY = 0xffffff

/** Encodes a number as the header of a pack entry: type, and size in groups of 4 and then 7 bits. */
function entryHead(type: number, size: number): Buffer {
  const bytes = [(type << 4) | (size & 15)]
  let remaining = Math.floor(size / 16)
  while (remaining > 0) {
    bytes.push((bytes.pop() ?? 0) | 0x80, remaining & 0x7f)
    remaining = Math.floor(remaining / 128)
  }
  return Buffer.from(bytes)
}

/** Encodes a size in a delta: 7 bits per byte, the lowest first. */
function deltaSize(size: number): Buffer {
  const bytes = [size % 128]
  let remaining = Math.floor(size / 128)
  while (remaining > 0) {
    bytes.push((bytes.pop() ?? 0) | 0x80, remaining % 128)
    remaining = Math.floor(remaining / 128)
  }
  return Buffer.from(bytes)
}

/** Encodes an instruction that copies `size` bytes from `offset` of the base. */
function copy(offset: number, size: number): Buffer {
  const head = Buffer.alloc(8)
  head[0] = 0xff
  head.writeUInt32LE(offset, 1)
  head.writeUIntLE(size, 5, 3)
  return head
}

/** Returns a delta that doubles its base. */
function doubling(baseBytes: number): Buffer {
  const parts: Buffer[] = [deltaSize(baseBytes), deltaSize(2 * baseBytes)]
  for (let copies = 0; copies < 2; copies++) {
    for (let offset = 0; offset < baseBytes; offset += MAX_COPY) {
      parts.push(copy(offset, Math.min(MAX_COPY, baseBytes - offset)))
    }
  }
  return Buffer.concat(parts)
}

/** Encodes the distance from a delta back to its base. */
function distance(bytes: number): Buffer {
  const digits = [bytes % 128]
  for (let remaining = Math.floor(bytes / 128); remaining > 0; remaining = Math.floor(remaining / 128)) {
    remaining -= 1
    digits.unshift(0x80 | (remaining % 128))
  }
  return Buffer.from(digits)
}

export interface PackBomb {
  pack: Buffer
  /** The id of its first blob. A ref to it makes git read all of them. */
  firstId: string
  /** Size of its largest object, in bytes. */
  inflatedBytes: number
}

/** @param doublings 10 give an object of 1 GiB */
export function packBomb(doublings: number): PackBomb {
  const first = Buffer.alloc(FIRST_BYTES)
  let entry = Buffer.concat([entryHead(BLOB, first.length), deflateSync(first, { level: 9 })])
  const entries = [entry]
  let bytes = FIRST_BYTES
  for (let i = 0; i < doublings; i++) {
    const delta = doubling(bytes)
    const head = Buffer.concat([entryHead(OFFSET_DELTA, delta.length), distance(entry.length)])
    entry = Buffer.concat([head, deflateSync(delta, { level: 9 })])
    entries.push(entry)
    bytes *= 2
  }
  const head = Buffer.alloc(12)
  head.write('PACK')
  head.writeUInt32BE(2, 4)
  head.writeUInt32BE(entries.length, 8)
  const body = Buffer.concat([head, ...entries])
  return {
    pack: Buffer.concat([body, createHash('sha1').update(body).digest()]),
    firstId: createHash('sha1').update(`blob ${first.length}\0`).update(first).digest('hex'),
    inflatedBytes: bytes,
  }
}
