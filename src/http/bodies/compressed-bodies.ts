/** Decompresses the bodies of requests. */
import { finished, type Readable } from 'node:stream'
import { createGunzip, createInflate } from 'node:zlib'
import type { FastifyInstance } from 'fastify'
import { Refused, refuse } from '../../errors/refusal.ts'
import { mediaTypeOf } from '../answers/media-type.ts'
import { codingOf } from './content-coding.ts'

const DECODERS: ReadonlyMap<string, () => ReturnType<typeof createGunzip>> = new Map([
  ['gzip', createGunzip],
  ['deflate', createInflate],
])

/**
 * Applies to the routes of this scope that are registered after this call. Readers of a body limit its decompressed
 * size, as the parsers do by `bodyLimit`.
 */
export function decompressBodies(app: FastifyInstance): void {
  app.addHook('onRequest', ({ raw: { headers } }, _reply, done) => {
    if (codingOf(headers['content-encoding']) === 'identity') delete headers['content-encoding']
    done()
  })
  app.addHook('preParsing', ({ headers }, reply, payload, done) => {
    const { 'content-encoding': coding, 'content-type': type } = headers
    if (coding === undefined) return done(null, payload)
    const decoder = DECODERS.get(codingOf(coding))?.()
    if (decoder === undefined) {
      return done(new Refused(refuse.unsupported('Content-Encoding: must be gzip, deflate or identity')))
    }
    // Upload routes read the raw request.
    if (mediaTypeOf(type).startsWith('multipart/')) {
      return done(new Refused(refuse.unsupported('Content-Encoding: a form with files must not have one')))
    }
    // Decompress nothing after the answer.
    reply.raw.once('finish', () => decoder.destroy())
    done(null, decompressed(payload, decoder))
  })
}

/**
 * Unlike `pipeline`, it does not destroy the request when the body is damaged: then the answer would have no
 * connection. Fastify compares `receivedEncodedLength` with the Content-Length.
 */
function decompressed(body: Readable, decoder: ReturnType<typeof createGunzip>): Readable {
  const output = Object.assign(decoder, { receivedEncodedLength: 0 })
  body.on('data', (chunk: Buffer) => {
    output.receivedEncodedLength += chunk.length
  })
  // Without a listener, an error would end the process.
  body.on('error', () => {})
  const unwatch = finished(body, { writable: false }, (error) => {
    if (error) output.destroy(error)
  })
  output.once('error', (error) => {
    Object.assign(error, {
      statusCode: 400,
      message: 'the body is not what its Content-Encoding says, or breaks off',
    })
  })
  output.once('close', () => {
    unwatch()
    body.unpipe(output)
    body.resume()
  })
  return body.pipe(output)
}
