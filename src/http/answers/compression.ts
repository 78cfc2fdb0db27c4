/** Compresses long answers for clients that ask for it. */
import compress from '@fastify/compress'
import type { FastifyInstance } from 'fastify'
import { COUNTED_FROM } from './unread-answers.ts'

/** `*` in an Accept-Encoding that excludes a coding of ours. The plugin takes it for that one. */
const NOT_ANY = /^(?=.*\b(?:gzip|deflate)\s*;\s*q\s*=\s*0(?:\.0*)?\s*(?:,|$))(?=.*(?:^|,)\s*\*)/i

/**
 * For the routes that are registered after this call, in this scope. Lines of JSON and server-sent events stay as they
 * are: each line has to leave at once.
 */
export async function compressAnswers(app: FastifyInstance): Promise<void> {
  app.addHook('onRequest', ({ raw: { headers } }, _reply, done) => {
    if (NOT_ANY.test(`${headers['accept-encoding']}`)) delete headers['accept-encoding']
    done()
  })
  await app.register(compress, {
    // Shorter ones are not worth it. Those that are compressed hold memory, and so are among the counted ones.
    threshold: COUNTED_FROM,
    encodings: ['gzip', 'deflate'],
    // Half of zlib's default memory, which an answer holds until its client has read it.
    zlibOptions: { level: 4, windowBits: 14, memLevel: 7 },
    // The event loop is for everyone: zlib works on threads of its own.
    syncThreshold: 0,
    // It ends the whole request when a body is damaged: see `compressed-bodies.ts`.
    globalDecompression: false,
  })
}
