/**
 * Reads JSON bodies that carry files in base64. A long one is decoded as it arrives and never becomes a part of the JSON
 * text: to scan, parse and validate megabytes of text at once would hold the event loop.
 */
import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { limitReached } from '../limits.ts'
import { Refused, refuse } from '../refusal.ts'
import { jsonParser } from './json-bodies.ts'

/** A shorter text stays where it is. */
const LONG = 16 * 1024

/** Decoded base64, in parts; undefined when the text is no base64. */
export type Decoded = readonly Buffer[] | undefined

/** The long texts of requests, by what stands for them in the body. */
const longTexts = new WeakMap<FastifyRequest, ReadonlyMap<string, Decoded>>()

/**
 * The content that a text of a request's body gives: the text may be base64, or stand for a long one. Undefined when it
 * is no base64.
 */
export function base64In(request: FastifyRequest, text: string): Decoded {
  const long = longTexts.get(request)
  if (long?.has(text)) return long.get(text)
  const decoder = createDecoder()
  decoder.take(text)
  return decoder.end()
}

/**
 * Replaces the parser of JSON in this scope. `key`: the fields that hold base64. `maxTextBytes`: the most of a body without
 * its long base64; the limit of the whole is the route's `bodyLimit`.
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

/** Reads a body to its end. What is refused before flows on unread, so that the client gets its answer. */
function scanned(
  request: FastifyRequest,
  payload: Readable,
  { key, maxTextBytes }: { key: string; maxTextBytes: number },
): Promise<{ text: Buffer; long: ReadonlyMap<string, Decoded> }> {
  const most = request.routeOptions.bodyLimit ?? maxTextBytes
  const scan = createScanner(key)
  let bytes = 0
  return new Promise((resolve, reject) => {
    const refuseTooLarge = (limit: number) => {
      payload.off('data', onData)
      payload.resume()
      limitReached('body_bytes')
      reject(new Refused(refuse.tooLarge(`the body has more than ${limit} bytes`)))
    }
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > most) refuseTooLarge(most)
      else if (scan.take(chunk) > maxTextBytes) refuseTooLarge(maxTextBytes)
    }
    payload.once('error', reject)
    payload.once('end', () => resolve(scan.end()))
    if (Number(request.headers['content-length'] ?? 0) > most) refuseTooLarge(most)
    else payload.on('data', onData)
  })
}

/** Decodes base64 in pieces. Line feeds and carriage returns are left out. */
function createDecoder() {
  const parts: Buffer[] = []
  let rest = ''
  let isWrong = false
  let isOver = false

  return {
    take(piece: string): void {
      if (isWrong) return
      const text = rest + (/[\r\n]/.test(piece) ? piece.replace(/[\r\n]/g, '') : piece)
      const whole = text.length - (text.length % 4)
      rest = text.slice(whole)
      if (whole === 0) return
      const quads = text.slice(0, whole)
      isWrong = isOver || !/^[A-Za-z0-9+/]*={0,2}$/.test(quads)
      isOver = quads.endsWith('=')
      if (!isWrong) parts.push(Buffer.from(quads, 'base64'))
    },
    end: (): Decoded => (isWrong || rest !== '' ? undefined : parts),
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Takes a JSON text in chunks, and takes out the long values of a key. The text need not be JSON. */
function createScanner(key: string) {
  const token = randomUUID()
  const long = new Map<string, Decoded>()
  /** What the text is without long values. */
  const kept: Buffer[] = []
  let keptBytes = 0
  let inString = false
  let isEscape = false
  /** The last string, as far as it can be the key; and whether a colon, and then nothing, came after it. */
  let last = ''
  let isValue = false
  /** The value of the key that is being read, while it may still be short. */
  let value: Buffer[] | undefined
  let valueBytes = 0
  let decoder: ReturnType<typeof createDecoder> | undefined

  function keep(bytes: Buffer): void {
    if (bytes.length === 0) return
    kept.push(bytes)
    keptBytes += bytes.length
  }

  /** A part of a string without escapes. */
  function inner(bytes: Buffer): void {
    if (decoder !== undefined) {
      decoder.take(bytes.toString('latin1'))
      return
    }
    if (value === undefined) {
      if (last.length <= key.length) last += bytes.toString('latin1', 0, key.length + 1)
      keep(bytes)
      return
    }
    value.push(bytes)
    valueBytes += bytes.length
    if (valueBytes <= LONG) return
    decoder = createDecoder()
    for (const part of value) decoder.take(unescaped(part))
    value = undefined
  }

  /** An escape, from its backslash on. Those of base64 are `\/`, which some clients write, and line ends. */
  function escaped(bytes: Buffer): void {
    if (decoder !== undefined) decoder.take(unescaped(bytes))
    else inner(bytes)
  }

  function endString(): void {
    inString = false
    if (decoder !== undefined) {
      const name = `${token} ${long.size}`
      long.set(name, decoder.end())
      keep(Buffer.from(name))
    } else if (value !== undefined) for (const part of value) keep(part)
    decoder = undefined
    value = undefined
  }

  function takeString(chunk: Buffer, from: number): number {
    if (isEscape) {
      isEscape = false
      escaped(Buffer.from([BACKSLASH, chunk[from] ?? 0]))
      return from + 1
    }
    const quote = chunk.indexOf(QUOTE, from)
    const end = quote === -1 ? chunk.length : quote
    const backslash = chunk.subarray(from, end).indexOf(BACKSLASH)
    if (backslash !== -1) {
      inner(chunk.subarray(from, from + backslash))
      isEscape = true
      return from + backslash + 1
    }
    inner(chunk.subarray(from, end))
    if (quote === -1) return chunk.length
    endString()
    keep(chunk.subarray(quote, quote + 1))
    return quote + 1
  }

  function takeOutside(chunk: Buffer, from: number): number {
    const quote = chunk.indexOf(QUOTE, from)
    const end = quote === -1 ? chunk.length : quote + 1
    const between = chunk.subarray(from, quote === -1 ? end : quote).toString('latin1')
    // A value comes after a colon and nothing else. Spaces may be cut by the end of a chunk.
    if (between.trim() !== '') isValue = between.trim() === ':'
    keep(chunk.subarray(from, end))
    if (quote === -1) return end
    inString = true
    if (isValue && last === key) {
      value = []
      valueBytes = 0
    }
    isValue = false
    last = ''
    return end
  }

  return {
    /** Returns how many bytes are kept so far. */
    take(chunk: Buffer): number {
      for (let at = 0; at < chunk.length; ) at = inString ? takeString(chunk, at) : takeOutside(chunk, at)
      return keptBytes + (value === undefined ? 0 : valueBytes)
    },
    end() {
      if (value !== undefined) for (const part of value) keep(part)
      return { text: Buffer.concat(kept), long }
    },
  }
}

/** The characters that an escape in base64 stands for; what cannot be there stays, and is no base64. */
function unescaped(part: Buffer): string {
  const text = part.toString('latin1')
  return text === '\\/' ? '/' : text === '\\n' || text === '\\r' ? '' : text
}
