/**
 * Maps file names between git's bytes, which need not be UTF-8, and text. Each byte that is not part of a character becomes
 * one of 128 private characters, so that the text leads back to the bytes. A name that has such a character itself is
 * escaped, too: no two names have the same text.
 */
import { isUtf8 } from 'node:buffer'

/** The character that stands for the byte 0x80. */
const FIRST = 0x10fe80
const STAND_IN = /[\u{10fe80}-\u{10feff}]/u
const STAND_INS = /[\u{10fe80}-\u{10feff}]+/gu
const LONGEST_CHARACTER = 4

export function textOfBytes(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const text = buffer.toString('utf8')
  if (isUtf8(buffer) && !STAND_IN.test(text)) return text
  let result = ''
  for (let at = 0; at < buffer.length; ) {
    const character = characterAt(buffer, at)
    result += character ?? String.fromCodePoint(FIRST + (buffer[at] ?? 0) - 0x80)
    at += character === undefined ? 1 : Buffer.byteLength(character)
  }
  return result
}

/** Returns the character that begins at a byte; undefined for an invalid one, or one of the private characters. */
function characterAt(buffer: Buffer, at: number): string | undefined {
  for (let length = 1; length <= LONGEST_CHARACTER; length++) {
    const part = buffer.subarray(at, at + length)
    if (isUtf8(part)) return STAND_IN.test(part.toString()) ? undefined : part.toString()
  }
  return undefined
}

export function bytesOfText(text: string): Buffer {
  if (!STAND_IN.test(text)) return Buffer.from(text)
  const between = text.split(STAND_INS).map((part) => Buffer.from(part))
  const bytes = [...text.matchAll(STAND_INS)].map(([run]) =>
    Buffer.from(Array.from(run, (character) => (character.codePointAt(0) ?? FIRST) - FIRST + 0x80)),
  )
  return Buffer.concat(between.flatMap((part, i) => [part, bytes[i] ?? Buffer.alloc(0)]))
}

/** Whether a name has bytes that an argument of a process can't have. */
export const hasRawBytes = (text: string): boolean => STAND_IN.test(text)

const ESCAPES = /(?:%[0-9a-f]{2})+/gi

const bytesOfEscapes = (run: string) => Buffer.from(run.replaceAll('%', ''), 'hex')

/** Encodes a path for a URL, with its bytes. Bytes that would decode to private characters keep the text's encoding. */
export function pathInUrl(path: string): string {
  const names = path.split('/').map((name) => encodeURIComponent(name))
  return names.join('/').replace(ESCAPES, (run) => {
    // The bytes 0x80 to 0xbf are encoded as %F4%8F%BA%80 to %BF, and the others as %F4%8F%BB%80 to %BF.
    const bytes = run.replace(/%F4%8F%B([AB])%(..)/g, (_, half: string, low: string) => {
      const byte = (half === 'A' ? 0x80 : 0xc0) + (Number.parseInt(low, 16) & 0x3f)
      return `%${byte.toString(16).toUpperCase()}`
    })
    return isUtf8(bytesOfEscapes(bytes)) ? run : bytes
  })
}

/** URL paths with file names. */
const OF_FILES =
  /^[^?]*\/[^/?]+\/[^/?]+\/(?:contents|contents-ext|raw|media|src|git\/trees|commits|pulls\/\d+\/files)(?=[/?])/

/** The URL of a request in which every name is text: routers refuse bytes that are not UTF-8. */
export function urlWithTexts(url: string): string {
  if (!/%[89a-f]/i.test(url) || !OF_FILES.test(url)) return url
  return url.replace(ESCAPES, (run) => {
    const bytes = bytesOfEscapes(run)
    return isUtf8(bytes) ? run : encodeURIComponent(textOfBytes(bytes))
  })
}

/** Returns the last arguments of a git command that takes one path. Raw bytes go to its input, after a `--`. */
export function pathArguments(path: string): { args: string[]; input?: Buffer } {
  if (!hasRawBytes(path) || path.includes('\n')) return { args: ['--', path] }
  return {
    args: ['--stdin'],
    input: Buffer.concat([Buffer.from('--\n'), bytesOfText(path), Buffer.from('\n')]),
  }
}
