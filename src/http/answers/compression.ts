/** Compresses long answers for clients that ask for it. */
import compress from '@fastify/compress'
import type { FastifyInstance } from 'fastify'
import { COUNTED_FROM } from './unread-bytes.ts'

/** An Accept-Encoding with `*` that excludes gzip or deflate. The plugin would choose the excluded coding. */
const NOT_ANY = /^(?=.*\b(?:gzip|deflate)\s*;\s*q\s*=\s*0(?:\.0*)?\s*(?:,|$))(?=.*(?:^|,)\s*\*)/i

/**
 * Applies to the routes that are registered after this call, in this scope. Lines of JSON and server-sent events stay
 * uncompressed: each line has to leave at once.
 */
export async function compressAnswers(app: FastifyInstance): Promise<void> {
  app.addHook('onRequest', ({ raw: { headers } }, _reply, done) => {
    if (NOT_ANY.test(`${headers['accept-encoding']}`)) delete headers['accept-encoding']
    done()
  })
  await app.register(compress, {
    // Compressed answers hold memory, so all of them must be counted.
    threshold: COUNTED_FROM,
    encodings: ['gzip', 'deflate'],
    // Half of zlib's default memory, which an answer holds until its client has read it.
    zlibOptions: { level: 4, windowBits: 14, memLevel: 7 },
    // Keeps zlib out of the event loop: it works on other threads.
    syncThreshold: 0,
    // The plugin would end the whole request for a damaged body: see `compressed-bodies.ts`.
    globalDecompression: false,
  })
}
