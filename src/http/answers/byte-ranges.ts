/** Selects the bytes of a file for an answer: all, the part in `Range`, or none when the client's copy is current. */
import type { IncomingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'
import parseRange from 'range-parser'
import { matchesTag } from './entity-tags.ts'

/** The properties of a file that conditions and ranges refer to. */
export interface SizedFile {
  /** In bytes. */
  size: number
  /** A strong entity tag, with its quotes. */
  tag: string
  /** In whole seconds; undefined when unknown. */
  lastModified?: Date | undefined
}

/** First and last byte. */
export interface Part {
  start: number
  end: number
}

/** Milliseconds of a date header; NaN without one. */
const timeOf = (header: string | undefined) => (header === undefined ? Number.NaN : Date.parse(header))

/** Whether the client's copy is current, by `If-None-Match` or, without tags, `If-Modified-Since`. */
export function isUnchanged(
  headers: IncomingHttpHeaders,
  { tag, lastModified }: Omit<SizedFile, 'size'>,
): boolean {
  const known = headers['if-none-match']
  if (known !== undefined) return matchesTag(known, tag)
  return lastModified !== undefined && lastModified.getTime() <= timeOf(headers['if-modified-since'])
}

/**
 * Returns the requested part. `whole` without a range, for an invalid range or several ones, and when `If-Range` names
 * another version. `outside` when the file lacks such bytes.
 */
export function partOf(headers: IncomingHttpHeaders, file: SizedFile): Part | 'whole' | 'outside' {
  const { range } = headers
  if (!range?.startsWith('bytes=') || file.size === 0 || !isSame(headers['if-range'], file)) return 'whole'
  const ranges = parseRange(file.size, range, { combine: true })
  if (ranges === -1) return 'outside'
  const [only] = ranges === -2 ? [] : ranges
  return ranges === -2 || only === undefined || ranges.length > 1
    ? 'whole'
    : { start: only.start, end: only.end }
}

/** Whether `If-Range` is absent or names this version. Only strong tags count. */
function isSame(known: string | string[] | undefined, { tag, lastModified }: SizedFile): boolean {
  if (known === undefined) return true
  if (typeof known !== 'string') return false
  return known === tag || (lastModified !== undefined && lastModified.getTime() === timeOf(known))
}

/** Returns one part of a stream, and destroys the source when the part ends or is destroyed. */
export function partOfStream(source: Readable, part: Part): Readable {
  return Readable.from(bytesOf(source, part), { objectMode: false }).once('close', () => source.destroy())
}

async function* bytesOf(source: AsyncIterable<Buffer>, { start, end }: Part): AsyncGenerator<Buffer> {
  let at = 0
  for await (const chunk of source) {
    const part = chunk.subarray(Math.max(0, start - at), Math.max(0, end + 1 - at))
    at += chunk.length
    if (part.length > 0) yield part
    if (at > end) return
  }
}
