/** Builds packs by hand, also invalid ones. */
import { createHash } from 'node:crypto'
import { deflateSync } from 'node:zlib'

/** An object in a pack: its type, its size and its compressed content. `base`: the base of a delta. */
export function packed(type: number, content: Buffer, base = ''): Buffer {
  let size = content.length
  const header = [(type << 4) | (size & 15)]
  for (size >>= 4; size > 0; size >>= 7) {
    header[header.length - 1] = (header.at(-1) ?? 0) | 0x80
    header.push(size & 127)
  }
  return Buffer.concat([Buffer.from(header), Buffer.from(base, 'hex'), deflateSync(content)])
}

export function packOf(objects: Buffer[]): Buffer {
  const header = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1')
  header.writeUInt32BE(objects.length, 8)
  const all = Buffer.concat([header, ...objects])
  return Buffer.concat([all, createHash('sha1').update(all).digest()])
}

const TYPES = { commit: 1, tree: 2, blob: 3 }

export function idOf(type: keyof typeof TYPES, content: Buffer): string {
  return createHash('sha1').update(`${type} ${content.length}\0`).update(content).digest('hex')
}

/** Encodes a delta that copies the whole base, of 128 to 16,000 bytes, and adds one character. */
export function deltaAdding(character: string, baseSize: number): Buffer {
  const varint = (size: number) => [(size & 127) | 0x80, size >> 7]
  const sizes = [...varint(baseSize), ...varint(baseSize + 1)]
  const copy = [0x80 | 0x10 | 0x20, baseSize & 255, baseSize >> 8]
  return Buffer.from([...sizes, ...copy, 1, character.charCodeAt(0)])
}

/** Encodes a delta that copies all but the last byte of a base of 128 to 16,000 bytes. */
export function deltaCutting(baseSize: number): Buffer {
  const varint = (size: number) => [(size & 127) | 0x80, size >> 7]
  const size = baseSize - 1
  return Buffer.from([...varint(baseSize), ...varint(size), 0x80 | 0x10 | 0x20, size & 255, size >> 8])
}
