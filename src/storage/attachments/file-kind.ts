/**
 * Detects the media type of an attached file from its first bytes and its name, and chooses the headers of its download.
 */
import { fileTypeFromBuffer } from 'file-type'
import { lookup } from 'mime-types'
import { endingOf } from './file-name.ts'

/** Number of leading bytes from which the type of a file is detected. */
export const HEAD_BYTES = 4100

const HTML =
  /^(?:<!doctype html|<(?:html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|svg)[\s>/])|^<!--/i
/** The control characters that text may contain: tab, line feed, form feed, carriage return, escape. */
const IN_TEXT = new Set([0x09, 0x0a, 0x0c, 0x0d, 0x1b])

/**
 * Guesses the media type from the first bytes of a file, as browsers do. `application/octet-stream` when the type
 * is unknown; undefined for a file of less than two bytes.
 */
export async function sniff(head: Uint8Array): Promise<string | undefined> {
  if (head.length <= 1) return undefined
  const latin1 = Buffer.from(head.buffer, head.byteOffset, head.byteLength).toString('latin1')
  // Checked first, because text in UTF-16 looks like music.
  if (/^(?:\xfe\xff|\xff\xfe)/.test(latin1)) return 'text/plain'
  const known = await fileTypeFromBuffer(head)
  if (known !== undefined) return known.mime
  const start = latin1.replace(/^\xef\xbb\xbf/, '').trimStart()
  if (HTML.test(start)) return 'text/html'
  const isText = head.every((byte) => byte >= 0x20 || IN_TEXT.has(byte))
  return isText ? 'text/plain' : 'application/octet-stream'
}

/**
 * Whether a file may be uploaded, by Gitea's rule: one entry must match.
 * @param allowed file endings (`.zip`), media types (`text/plain`), families of media types (`image/*`), or `*`
 * of `*` for everything. An empty list allows everything.
 * @param sniffed the result of `sniff`
 */
export function isAllowed(allowed: readonly string[], name: string, sniffed: string | undefined): boolean {
  if (allowed.length === 0) return true
  const lowerName = name.toLowerCase()
  return allowed.some((entry) => {
    if (entry === '*/*') return true
    if (entry.startsWith('.')) return lowerName.endsWith(entry)
    if (sniffed === undefined) return false
    return entry.endsWith('/*') ? sniffed.startsWith(entry.slice(0, -1)) : sniffed === entry
  })
}

/** Bitmap formats, which can't contain scripts. */
const PICTURES = new Set([
  'image/png',
  'image/apng',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'image/avif',
  'image/bmp',
])
/** Types that a browser plays, saves or opens in another program, but never runs. */
const HARMLESS =
  /^(?:audio|video|font)\/|^application\/(?:pdf|zip|gzip|x-(?:7z-compressed|tar|xz|bzip2)|zstd|msword|rtf|vnd\.(?:ms-(?:excel|powerpoint)|openxmlformats-officedocument\.|oasis\.opendocument\.))/
const TEXT = /^text\/|^application\/(?:xml|json|javascript)$|\+xml$/

/** The headers of a download. An uploaded file must never run as a page of this server. */
export function servedAs(
  name: string,
  sniffed: string | undefined,
): { type: string; disposition: 'inline' | 'attachment' } {
  if (sniffed !== undefined && PICTURES.has(sniffed)) return { type: sniffed, disposition: 'inline' }
  const unknown = sniffed === undefined || sniffed === 'application/octet-stream'
  if (!unknown && TEXT.test(sniffed)) return { type: 'text/plain; charset=utf-8', disposition: 'attachment' }
  const type = unknown ? lookup(endingOf(name)) || 'application/octet-stream' : sniffed
  return { type: HARMLESS.test(type) ? type : 'application/octet-stream', disposition: 'attachment' }
}
