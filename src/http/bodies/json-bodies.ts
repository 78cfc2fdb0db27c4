/** Reads JSON bodies, and limits their nesting and their number of values. */
import { StringDecoder } from 'node:string_decoder'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { nextSlice, scheduleWork } from '../../concurrency/event-loop.ts'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { schedulingKey } from '../connections/fair-scheduling.ts'
import { deferToHandler } from '../requests/deferred-validation.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Maximum number of values in a JSON body of a route that needs more than the default. */
    maxBodyValues?: number
  }
}

/** Maximum nesting, deeper than any body of the API. Recursive functions can process such a value. */
const MAX_DEPTH = 32

/**
 * Maximum number of values, more than any body of the API has. Parsing four megabytes of short values takes a third of
 * a second.
 */
export const MAX_VALUES = 10_000

/** Number of bytes scanned at a time. */
const SLICE_BYTES = 128 * 1024

/**
 * Replaces the JSON parser. A body that is nested too deeply gets 400, one with too many values 413, before it is
 * parsed. An empty body counts as absent: many clients always send the content type.
 */
export function parseJsonBodies(app: FastifyInstance, type = 'application/json'): void {
  const parse = jsonParser(app)
  if (app.hasContentTypeParser(type)) app.removeContentTypeParser(type)
  app.addContentTypeParser(type, { parseAs: 'buffer' }, (request, body, done) =>
    parse(request, typeof body === 'string' ? Buffer.from(body) : body, done),
  )
}

/** Refuses bodies of other types in this scope. An empty body counts as absent, whatever its type. */
export function refuseOtherBodies(app: FastifyInstance): void {
  app.removeContentTypeParser('text/plain')
  app.addContentTypeParser('*', (request, payload, done) => {
    const types = request.routeOptions.schema?.consumes ?? ['application/json']
    let isOver = false
    const end = (error: Error | null) => {
      if (!isOver) deferToHandler(request, done)(error)
      isOver = true
    }
    payload.once('data', () =>
      end(new Refused(refuse.unsupported(`send Content-Type: ${types.join(' or ')}`))),
    )
    payload.once('end', () => end(null))
    // As in Fastify: a truncated body is the client's error.
    payload.on('error', (error) =>
      end('statusCode' in error ? error : Object.assign(error, { statusCode: 400 })),
    )
  })
}

type Done = (error: Error | null, body?: unknown) => void

/** Creates the parser of complete bodies. Scans a long one in slices, with other work in between. */
export function jsonParser(
  app: FastifyInstance,
): (request: FastifyRequest, body: Buffer, done: Done) => void {
  const parse = app.getDefaultJsonParser('error', 'error')
  return (request, body, parsed) => {
    const done = deferToHandler(request, parsed)
    if (body.length === 0) return done(null, undefined)
    const maxValues = request.routeOptions.config.maxBodyValues ?? MAX_VALUES
    const reader = createReader(maxValues)
    let at = 0
    const isRefused = () => {
      const excess = reader.take(body.subarray(at, at + SLICE_BYTES))
      at += SLICE_BYTES
      if (excess !== undefined) done(refusalOf(excess, maxValues))
      return excess !== undefined
    }
    async function readOn(): Promise<void> {
      while (at < body.length) {
        await nextSlice(schedulingKey(request))
        if (isRefused()) return
      }
      await nextSlice(schedulingKey(request))
      parse(request, reader.end(), done)
    }
    // Many bodies may be complete in one iteration of the event loop, and each is handled right after parsing.
    scheduleWork(schedulingKey(request), () => {
      if (isRefused()) return
      if (at >= body.length) parse(request, reader.end(), done)
      else readOn().catch(done)
    })
  }
}

type Excess = 'depth' | 'values'

/** Refuses a body with more values than `maxValues`. */
export function tooManyValues(maxValues: number): Refused {
  limitReached('body_values')
  return new Refused(refuse.tooLarge(`the body has more than ${maxValues} values`))
}

function refusalOf(excess: Excess, maxValues: number): Refused {
  if (excess === 'values') return tooManyValues(maxValues)
  limitReached('body_depth')
  const reason = `body: is nested more than ${MAX_DEPTH} levels deep`
  return new Refused(refuse.invalid(reason, [reason]))
}

const QUOTE = 34
const COMMA = 44
const BACKSLASH = 92
const ARRAY = 91
const END_OF_ARRAY = 93
const OBJECT = 123
const END_OF_OBJECT = 125

/**
 * Decodes bytes in chunks, and counts brackets and values outside of strings. It counts bytes, because these characters
 * are ASCII, so a refused body is never decoded.
 */
function createReader(maxValues: number) {
  const decoder = new StringDecoder()
  let text = ''
  let depth = 0
  /** An upper bound: one value at the beginning, and one after each comma and each bracket. */
  let values = 1
  let inString = false
  let isEscaped = false

  function excessIn(bytes: Uint8Array): Excess | undefined {
    // Skip the escaped character when the backslash was the last byte of the chunk before.
    let i = isEscaped ? 1 : 0
    isEscaped = false
    for (; i < bytes.length; i++) {
      const code = bytes[i] ?? 0
      if (code === QUOTE) inString = !inString
      else if (inString) {
        if (code === BACKSLASH) i += 1
        isEscaped = i === bytes.length
      } else if (code === ARRAY || code === OBJECT) {
        depth += 1
        values += 1
        if (depth > MAX_DEPTH) return 'depth'
      } else if (code === END_OF_ARRAY || code === END_OF_OBJECT) depth -= 1
      else if (code === COMMA) values += 1
      if (values > maxValues) return 'values'
    }
    return undefined
  }

  return {
    /** Returns the exceeded limit so far. */
    take(chunk: Buffer): Excess | undefined {
      const excess = excessIn(chunk)
      if (excess === undefined) text += decoder.write(chunk)
      return excess
    },
    end: () => text + decoder.end(),
  }
}
