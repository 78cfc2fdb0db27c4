/**
 * Finds too large objects of a pack by the sizes that the pack declares. A pack of some kilobytes may inflate to
 * gigabytes: git would inflate them before it reports their size.
 */
import type { Readable } from 'node:stream'
import { createInflate } from 'node:zlib'
import { timeSlices } from '../../concurrency/event-loop.ts'
import { limitReached } from '../../errors/limits.ts'
import {
  entryAt,
  inflatedNow,
  MAX_AT_ONCE,
  MAX_ENTRY_BYTES,
  PACK_HEADER_BYTES,
  PACK_TRAILER_BYTES,
  type PackEntry,
  sizeMadeBy,
} from './pack-entries.ts'

/** Maximum number of bytes that compression adds. Content with more is inflated in parts. */
const MORE_BYTES = 1024
/** Maximum size of a delta's header, in bytes: two numbers. */
const DELTA_HEAD_BYTES = 20

/** A stream from which bytes are taken as they are needed. */
interface Source {
  /** The bytes that are here and were not taken. */
  bytes: Buffer
  /** Waits until at least `wanted` bytes are here, or the stream has ended. */
  fill(wanted: number): Promise<void>
  take(count: number): void
}

function sourceOf(stream: Readable): Source {
  const chunks = stream[Symbol.asyncIterator]()
  const source: Source = {
    bytes: Buffer.alloc(0),
    async fill(wanted) {
      while (source.bytes.length < wanted) {
        const next = await chunks.next()
        if (next.done) return
        source.bytes = Buffer.concat([source.bytes, next.value])
      }
    },
    take(count) {
      source.bytes = source.bytes.subarray(count)
    },
  }
  return source
}

/**
 * The reason when the sizes cannot be read. git accepts some such packs, for example with a size that is padded with zeros:
 * they would get around the limit.
 */
const UNREADABLE = 'the pack is broken'

/**
 * Returns why a pack is refused: an object has more than `most` bytes, the check takes longer than `workMs`
 * milliseconds, or its sizes cannot be read. A delta counts with the size of its result. Inflates the pack as a stream.
 * @throws the stream's error
 */
export async function sizeProblem(
  pack: Readable,
  { most, workMs }: { most: number; workMs: number },
): Promise<string | undefined> {
  const tooLarge = (size: number) => {
    limitReached('object_bytes')
    return `an object has ${size} bytes, and may have at most ${most}`
  }
  const source = sourceOf(pack)
  const slices = timeSlices()
  const end = performance.now() + workMs
  try {
    await source.fill(PACK_HEADER_BYTES)
    if (source.bytes.length < PACK_HEADER_BYTES) return undefined
    const count = source.bytes.readUInt32BE(8)
    source.take(PACK_HEADER_BYTES)
    for (let i = 0; i < count; i++) {
      await source.fill(MAX_ENTRY_BYTES + PACK_TRAILER_BYTES)
      const entry = unlessBroken(() => entryAt(source.bytes, 0))
      if (entry === undefined) return UNREADABLE
      if (entry.size > most) return tooLarge(entry.size)
      source.take(entry.contentAt)
      const resultSize = await sizeOfContent(source, entry)
      if (resultSize === undefined) return UNREADABLE
      if (resultSize > most) return tooLarge(resultSize)
      if (slices.isOver()) await slices.next()
      if (performance.now() <= end) continue
      limitReached('git_time')
      return `the push took longer than ${Math.ceil(workMs / 1000)} s`
    }
    return undefined
  } finally {
    pack.destroy()
  }
}

/** Returns the size of an object, and skips its content; undefined for broken content. */
async function sizeOfContent(source: Source, { size, base }: PackEntry): Promise<number | undefined> {
  if (size <= MAX_AT_ONCE) {
    await source.fill(size + MORE_BYTES)
    const whole = unlessBroken(() => inflatedNow(source.bytes, size))
    if (whole !== undefined) {
      source.take(whole.taken)
      return base === undefined ? size : unlessBroken(() => sizeMadeBy(whole.bytes))
    }
  }
  const head = await takeInParts(source, size)
  if (head === undefined) return undefined
  return base === undefined ? size : unlessBroken(() => sizeMadeBy(head))
}

/** Takes content of `size` bytes from the source, and returns its beginning; undefined for broken content. */
async function takeInParts(source: Source, size: number): Promise<Buffer | undefined> {
  const inflate = createInflate({ chunkSize: MAX_AT_ONCE })
  let head: Buffer = Buffer.alloc(0)
  let inflated = 0
  inflate.on('data', (chunk: Buffer) => {
    if (head.length < DELTA_HEAD_BYTES) head = Buffer.concat([head, chunk.subarray(0, DELTA_HEAD_BYTES)])
    inflated += chunk.length
    if (inflated > size) inflate.destroy()
  })
  const ended = new Promise<void>((resolve) => inflate.once('close', resolve))
  inflate.on('error', () => undefined)
  let isWhole = false
  inflate.once('end', () => {
    isWhole = true
    inflate.destroy()
  })
  try {
    while (!inflate.destroyed) {
      await source.fill(1)
      const { length } = source.bytes
      if (length === 0) return undefined
      const before = inflate.bytesWritten
      // When the content ends within these bytes, the stream ends and takes no more.
      await Promise.race([
        new Promise<void>((resolve) => inflate.write(source.bytes, () => resolve())),
        ended,
      ])
      source.take(Math.min(length, inflate.bytesWritten - before))
    }
    return isWhole && inflated === size ? head : undefined
  } finally {
    inflate.destroy()
  }
}

function unlessBroken<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}
