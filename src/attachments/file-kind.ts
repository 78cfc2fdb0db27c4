/** What kind of file an attachment is: by its first bytes, by its name, and as whom it is served. */
import { fileTypeFromBuffer } from 'file-type'
import { lookup } from 'mime-types'
import { endingOf } from './file-name.ts'

/** So much of the beginning of a file tells its kind, in bytes. */
export const HEAD_BYTES = 4100

const HTML =
  /^(?:<!doctype html|<(?:html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|svg)[\s>/])|^<!--/i
/** The control characters that texts do have: tab, line feed, form feed, carriage return, escape. */
const IN_TEXT = new Set([0x09, 0x0a, 0x0c, 0x0d, 0x1b])

/**
 * The media type that the first bytes of a file speak for, as browsers guess it; `application/octet-stream`
 * when they speak for none, undefined when there are too few.
 */
export async function sniff(head: Uint8Array): Promise<string | undefined> {
  if (head.length <= 1) return undefined
  const latin1 = Buffer.from(head.buffer, head.byteOffset, head.byteLength).toString('latin1')
  // Before anything else: text in UTF-16 looks like music.
  if (/^(?:\xfe\xff|\xff\xfe)/.test(latin1)) return 'text/plain'
  const known = await fileTypeFromBuffer(head)
  if (known !== undefined) return known.mime
  const start = latin1.replace(/^\xef\xbb\xbf/, '').trimStart()
  if (HTML.test(start)) return 'text/html'
  const isText = head.every((byte) => byte >= 0x20 || IN_TEXT.has(byte))
  return isText ? 'text/plain' : 'application/octet-stream'
}

/**
 * Whether such a file may be uploaded, as Gitea decides it: one entry that fits suffices.
 *
 * @param allowed endings (`.zip`), media types (`text/plain`), families of them (`image/*`), or everything (`*` of `*`);
 * none allow everything
 * @param sniffed what `sniff` says of its first bytes
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

/** Pictures of dots: nothing in them runs. */
const PICTURES = new Set([
  'image/png',
  'image/apng',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'image/avif',
  'image/bmp',
])
/** What a browser plays, unpacks or hands on, and never runs. */
const HARMLESS =
  /^(?:audio|video|font)\/|^application\/(?:pdf|zip|gzip|x-(?:7z-compressed|tar|xz|bzip2)|zstd|msword|rtf|vnd\.(?:ms-(?:excel|powerpoint)|openxmlformats-officedocument\.|oasis\.opendocument\.))/
const TEXT = /^text\/|^application\/(?:xml|json|javascript)$|\+xml$/

/** How a download is labelled: nothing that comes from a stranger may run as a page of this server. */
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
