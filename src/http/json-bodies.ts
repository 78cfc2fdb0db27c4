/** Reads bodies of JSON, and limits how deeply they are nested. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { limitReached } from '../limits.ts'
import { workInTurn } from '../long-work.ts'
import { Refused, refuse } from '../refusal.ts'
import { shareOf } from './loop-shares.ts'

/** Deeper than any body that we ask for. Functions that call themselves for each level can work on such a value. */
const MAX_DEPTH = 32

/**
 * Replaces the parser of JSON. A body that is nested too deeply gets 400, before anything is made of it. An empty one is
 * as if there were none: many clients send the content type with every request.
 */
export function parseJsonBodies(app: FastifyInstance, type = 'application/json'): void {
  const parse = jsonParser(app)
  if (app.hasContentTypeParser(type)) app.removeContentTypeParser(type)
  app.addContentTypeParser(type, { parseAs: 'buffer' }, (request, body, done) =>
    parse(request, typeof body === 'string' ? Buffer.from(body) : body, done),
  )
}

type Done = (error: Error | null, body?: unknown) => void

/** What makes values of bodies that are there as a whole. */
export function jsonParser(
  app: FastifyInstance,
): (request: FastifyRequest, body: Buffer, done: Done) => void {
  const parse = app.getDefaultJsonParser('error', 'error')
  return (request, body, done) => {
    if (body.length === 0) return done(null, undefined)
    // Many bodies may be complete in one turn of the event loop, and what a request does comes right after it.
    workInTurn(shareOf(request), () => {
      if (!isDeeperThan(body, MAX_DEPTH)) return parse(request, body.toString(), done)
      limitReached('body_depth')
      const reason = `body: is nested more than ${MAX_DEPTH} levels deep`
      done(new Refused(refuse.invalid(reason, [reason])))
    })
  }
}

const QUOTE = 34
const BACKSLASH = 92
const ARRAY = 91
const END_OF_ARRAY = 93
const OBJECT = 123
const END_OF_OBJECT = 125

/**
 * Whether brackets are nested deeper than this. Brackets in strings do not count. The bytes need not be JSON; all that
 * counts in it is ASCII, so what is refused need not become a text first.
 */
export function isDeeperThan(bytes: Uint8Array, most: number): boolean {
  let depth = 0
  let inString = false
  for (let i = 0; i < bytes.length; i++) {
    const code = bytes[i] ?? 0
    if (code === QUOTE) inString = !inString
    else if (inString) {
      if (code === BACKSLASH) i += 1
    } else if (code === ARRAY || code === OBJECT) {
      depth += 1
      if (depth > most) return true
    } else if (code === END_OF_ARRAY || code === END_OF_OBJECT) depth -= 1
  }
  return false
}
