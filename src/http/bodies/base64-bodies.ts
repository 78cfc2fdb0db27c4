/**
 * Reads JSON bodies that carry files in base64. A long text is decoded as it arrives and never becomes a part of the
 * JSON text: parsing and validating megabytes at once would block the event loop.
 */
import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { jsonParser, MAX_VALUES, tooManyValues } from './json-bodies.ts'

/** Minimum length of a text that is decoded separately, in bytes. */
const MIN_LONG = 16 * 1024

/** Decoded base64 in parts; undefined for invalid base64. */
export type Decoded = readonly Buffer[] | undefined

/** The decoded long texts of requests, by their placeholders in the body. */
const longTexts = new WeakMap<FastifyRequest, ReadonlyMap<string, Decoded>>()

/** Returns the content of a base64 text or placeholder in a request's body; undefined for invalid base64. */
export function base64In(request: FastifyRequest, text: string): Decoded {
  const long = longTexts.get(request)
  if (long?.has(text)) return long.get(text)
  const decoder = createDecoder()
  decoder.take(text)
  return decoder.end()
}

/**
 * Replaces the parser of JSON in this scope. `key`: name of the fields with base64. `maxTextBytes`: maximum size of a
 * body without its long base64; the limit of the whole body is the route's `bodyLimit`.
 */
export function readBase64Bodies(
  app: FastifyInstance,
  { key, maxTextBytes }: { key: string; maxTextBytes: number },
): void {
  const parse = jsonParser(app)
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser('application/json', (request, payload, done) => {
    scanned(request, payload, { key, maxTextBytes }).then(({ text, long }) => {
      longTexts.set(request, long)
      parse(request, text, done)
    }, done)
  })
}

/** Reads a body to its end. After a refusal the rest is discarded, so that the client gets its answer. */
function scanned(
  request: FastifyRequest,
  payload: Readable,
  { key, maxTextBytes }: { key: string; maxTextBytes: number },
): Promise<{ text: Buffer; long: ReadonlyMap<string, Decoded> }> {
  const most = request.routeOptions.bodyLimit ?? maxTextBytes
  const scan = createScanner(key)
  let bytes = 0
  return new Promise((resolve, reject) => {
    const refuseWith = (refused: Refused) => {
      payload.off('data', onData)
      payload.resume()
      reject(refused)
    }
    const refuseTooLarge = (limit: number) => {
      limitReached('body_bytes')
      refuseWith(new Refused(refuse.tooLarge(`the body has more than ${limit} bytes`)))
    }
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > most) return refuseTooLarge(most)
      const kept = scan.take(chunk)
      if (kept.bytes > maxTextBytes) refuseTooLarge(maxTextBytes)
      // Each value may have a name. The parser counts exactly, but only at the end of the body.
      else if (kept.strings > 2 * MAX_VALUES) refuseWith(tooManyValues(MAX_VALUES))
    }
    // As Fastify does: a truncated body, or one that contradicts its headers, is the client's error.
    payload.once('error', (error) =>
      reject('statusCode' in error ? error : Object.assign(error, { statusCode: 400 })),
    )
    payload.once('end', () => resolve(scan.end()))
    if (Number(request.headers['content-length'] ?? 0) > most) refuseTooLarge(most)
    else payload.on('data', onData)
  })
}

/** Decodes base64 in chunks. Skips line feeds and carriage returns. */
function createDecoder() {
  const parts: Buffer[] = []
  let rest = ''
  let isWrong = false
  let isPadded = false

  /** Decodes the buffered text if it has at least `least` characters: each decoded part has an overhead. */
  function decode(least: number): void {
    if (isWrong || rest.length < least) return
    const text = /[\r\n]/.test(rest) ? rest.replace(/[\r\n]/g, '') : rest
    const whole = text.length - (text.length % 4)
    rest = text.slice(whole)
    if (whole === 0) return
    const quads = text.slice(0, whole)
    isWrong = isPadded || !/^[A-Za-z0-9+/]*={0,2}$/.test(quads)
    isPadded = quads.endsWith('=')
    if (!isWrong) parts.push(Buffer.from(quads, 'base64'))
  }

  return {
    take(piece: string): void {
      if (isWrong) return
      rest += piece
      decode(MIN_LONG)
    },
    end(): Decoded {
      decode(0)
      return isWrong || rest !== '' ? undefined : parts
    },
  }
}

/** Creates a decoder of the inside of a JSON string. */
function createStringDecoder() {
  const decoder = createDecoder()
  let rest = ''
  return {
    take(bytes: Buffer): void {
      const text = rest + bytes.toString('latin1')
      // An escape is complete with its second character.
      rest = text.endsWith('\\') ? '\\' : ''
      decoder.take(unescaped(text.slice(0, text.length - rest.length)))
    },
    end(): Decoded {
      decoder.take(rest)
      return decoder.end()
    },
  }
}

const LARGEST_BLOCK = 64 * 1024
const SMALLEST_BLOCK = 512

/** Collects chunks of any size in few buffers. */
function createStore() {
  const blocks: Buffer[] = []
  let block = Buffer.alloc(0)
  let used = 0
  let bytes = 0
  return {
    put(piece: Buffer): void {
      for (let at = 0; at < piece.length; ) {
        if (used === block.length) {
          block = Buffer.allocUnsafe(Math.max(SMALLEST_BLOCK, Math.min(LARGEST_BLOCK, bytes)))
          blocks.push(block)
          used = 0
        }
        const copied = piece.copy(block, used, at)
        used += copied
        at += copied
        bytes += copied
      }
    },
    bytes: () => bytes,
    all: () => Buffer.concat(blocks, bytes),
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Scans a JSON text in chunks, and removes the long values of a key. The text need not be valid. */
function createScanner(key: string) {
  const token = randomUUID()
  const long = new Map<string, Decoded>()
  /** The body without its long values. */
  const kept = createStore()
  let inString = false
  let isEscape = false
  /** The strings so far: names and values. */
  let strings = 0
  /** The last string, if it can be the key, and whether only a colon followed it. */
  let last = ''
  let isValue = false
  /** The current value of the key, while it may still be short. */
  let value: ReturnType<typeof createStore> | undefined
  let decoder: ReturnType<typeof createStringDecoder> | undefined

  /** Takes a part of a string, with its escapes. */
  function inner(bytes: Buffer): void {
    if (decoder !== undefined) {
      decoder.take(bytes)
      return
    }
    if (value === undefined) {
      if (last.length <= key.length) last += bytes.toString('latin1', 0, key.length + 1)
      kept.put(bytes)
      return
    }
    value.put(bytes)
    if (value.bytes() <= MIN_LONG) return
    decoder = createStringDecoder()
    decoder.take(value.all())
    value = undefined
  }

  function endString(): void {
    inString = false
    strings += 1
    if (decoder !== undefined) {
      const name = `${token} ${long.size}`
      long.set(name, decoder.end())
      kept.put(Buffer.from(name))
    } else if (value !== undefined) kept.put(value.all())
    decoder = undefined
    value = undefined
  }

  /** Returns the end of the string that continues at `from`; -1 when it is not in this chunk. */
  function endOfString(chunk: Buffer, from: number): number {
    const quote = chunk.indexOf(QUOTE, from)
    const hasEscapes =
      isEscape || chunk.subarray(from, quote === -1 ? chunk.length : quote).includes(BACKSLASH)
    if (!hasEscapes) return quote
    // Byte by byte: a search for each escape would take quadratic time.
    for (let i = from; i < chunk.length; i++) {
      const code = chunk[i]
      if (isEscape) isEscape = false
      else if (code === BACKSLASH) isEscape = true
      else if (code === QUOTE) return i
    }
    return -1
  }

  function takeString(chunk: Buffer, from: number): number {
    const quote = endOfString(chunk, from)
    inner(chunk.subarray(from, quote === -1 ? chunk.length : quote))
    if (quote === -1) return chunk.length
    endString()
    kept.put(chunk.subarray(quote, quote + 1))
    return quote + 1
  }

  function takeOutside(chunk: Buffer, from: number): number {
    const quote = chunk.indexOf(QUOTE, from)
    const end = quote === -1 ? chunk.length : quote + 1
    const between = chunk.subarray(from, quote === -1 ? end : quote).toString('latin1')
    // A value follows a colon and whitespace; a chunk may end within them.
    if (between.trim() !== '') isValue = between.trim() === ':'
    kept.put(chunk.subarray(from, end))
    if (quote === -1) return end
    inString = true
    if (isValue && last === key) value = createStore()
    isValue = false
    last = ''
    return end
  }

  return {
    /** Returns the size so far without decoded values. */
    take(chunk: Buffer): { bytes: number; strings: number } {
      for (let at = 0; at < chunk.length; ) at = inString ? takeString(chunk, at) : takeOutside(chunk, at)
      return { bytes: kept.bytes() + (value?.bytes() ?? 0), strings }
    },
    end() {
      if (value !== undefined) kept.put(value.all())
      return { text: kept.all(), long }
    },
  }
}

/**
 * Removes the escapes of base64: `\/`, which some clients write, and line ends. Other escapes stay and make the base64
 * invalid.
 */
const unescaped = (text: string) =>
  text.includes('\\') ? text.replace(/\\[nr]/g, '').replaceAll('\\/', '/') : text
