/** Reads bodies of JSON, and limits how deeply they are nested and of how many values they consist. */
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

/** Deeper than any body that we ask for. Functions that call themselves for each level can work on such a value. */
const MAX_DEPTH = 32

/**
 * More than any body has that we ask for, with many fields that we ignore. Each value takes time to make, however short
 * it is: four megabytes of them take a third of a second.
 */
export const MAX_VALUES = 10_000

/** Number of bytes that are scanned at a time. */
const PIECE = 128 * 1024

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
    // As fastify itself has it: a body that breaks off is the client's fault.
    payload.on('error', (error) =>
      end('statusCode' in error ? error : Object.assign(error, { statusCode: 400 })),
    )
  })
}

type Done = (error: Error | null, body?: unknown) => void

/** Creates the parser of complete bodies. A long one is parsed in pieces, with other work in between. */
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
      const excess = reader.take(body.subarray(at, at + PIECE))
      at += PIECE
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
    // Many bodies may be complete in one turn of the event loop, and each is handled right after parsing.
    scheduleWork(schedulingKey(request), () => {
      if (isRefused()) return
      if (at >= body.length) parse(request, reader.end(), done)
      else readOn().catch(done)
    })
  }
}

type Excess = 'depth' | 'values'

/** The refusal of a body with more values than these. */
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
 * Decodes bytes in pieces, and counts brackets and values outside of strings. It counts in the bytes, all ASCII, so a
 * refused body is never decoded.
 */
function createReader(maxValues: number) {
  const decoder = new StringDecoder()
  let text = ''
  let depth = 0
  /** The most that there can be: one at the beginning, and after each comma and each bracket one more. */
  let values = 1
  let inString = false
  let isEscaped = false

  function excessIn(bytes: Uint8Array): Excess | undefined {
    // It begins with a character that does not count when its backslash was the last byte of the piece before.
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
    take(piece: Buffer): Excess | undefined {
      const excess = excessIn(piece)
      if (excess === undefined) text += decoder.write(piece)
      return excess
    },
    end: () => text + decoder.end(),
  }
}
