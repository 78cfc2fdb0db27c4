/** Reads the body of a git client's request: decodes it, limits its size and time, and detects a broken connection. */
import { type Duplex, finished, type Readable, Transform } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { deadline } from '../../concurrency/deadline.ts'
import { limitReached } from '../../errors/limits.ts'
import { codingOf } from '../../http/bodies/content-coding.ts'
import {
  GitClientGone,
  GitRequestTooLarge,
  MalformedGitRequest,
  UnknownContentEncoding,
} from '../process/errors.ts'

/**
 * Minimum speed of a client: after `graceMs` milliseconds, at least `bytesPerSecond` on average since the beginning. So
 * each transfer has a deadline, and a large one has more time.
 */
export interface Pace {
  graceMs: number
  bytesPerSecond: number
}

/** The milliseconds that `bytes` may take. */
export function timeFor({ graceMs, bytesPerSecond }: Pace, bytes: number): number {
  return graceMs + (1000 * bytes) / bytesPerSecond
}

/** Maximum number of bytes of a refused push to read and drop, so that the client reads the reason. */
const MAX_DRAIN = 1024 ** 3

/** Decompressed size from which the compression ratio of a gzip body is limited, in bytes: packs hardly shrink. */
const FREE_BYTES = 32 * 1024 * 1024
const MAX_RATIO = 10

/**
 * Decodes `body` by its Content-Encoding. Ends with GitRequestTooLarge when the data decompresses to far more than was
 * sent: a few megabytes would fill a disk. @throws UnknownContentEncoding
 */
export function decodeBody(body: Readable, contentEncoding: string | undefined): Readable {
  const coding = codingOf(contentEncoding)
  if (coding === 'identity') return body
  if (coding !== 'gzip') {
    throw new UnknownContentEncoding('the request body must be gzip or identity')
  }
  const gunzip = createGunzip()
  let size = 0
  const counted = new Transform({
    transform(chunk, _encoding, done) {
      size += chunk.length
      if (size <= Math.max(FREE_BYTES, MAX_RATIO * gunzip.bytesWritten)) return done(null, chunk)
      limitReached('git_unfolded_bytes')
      done(new GitRequestTooLarge('the request decompresses to more than ten times its size'))
      // Decompress no further.
      gunzip.destroy()
    },
  })
  return passOn(passOn(body, gunzip), counted)
}

/**
 * Passes the bytes through, and fails after `maxBytes` bytes. Apply it to the decoded body, so that gzip can't hide its
 * size.
 */
export function limitBody(body: Readable, maxBytes: number): Readable {
  let size = 0
  const counted = new Transform({
    transform(chunk, _encoding, done) {
      size += chunk.length
      if (size <= maxBytes) return done(null, chunk)
      limitReached('fetch_request_bytes')
      done(new GitRequestTooLarge(`the request may have at most ${maxBytes} bytes`))
    },
  })
  return passOn(body, counted)
}

/** Passes the bytes through, and fails with `GitClientGone` when they arrive too slowly. */
export function paceBody(body: Readable, pace: Pace): Readable {
  const start = performance.now()
  let size = 0
  const counted = new Transform({
    transform(chunk, _encoding, done) {
      size += chunk.length
      done(null, chunk)
    },
  })
  const left = () => start + timeFor(pace, size) - performance.now()
  const stop = deadline(left, () => {
    limitReached('git_client_rate')
    counted.destroy(new GitClientGone('the request came too slowly'))
  })
  counted.once('close', stop)
  counted.once('end', stop)
  return passOn(body, counted)
}

/**
 * Pipes `source` into `target` and passes errors on. Unlike `pipeline`, it does not destroy the source when the
 * target fails: the source is a request, and the answer still needs its connection.
 */
function passOn<Target extends Duplex>(source: Readable, target: Target): Target {
  const unwatch = watchBody(source, undefined, (reason) => target.destroy(asError(reason)))
  // The client may disconnect before there is a listener. A later reader still gets the error.
  target.on('error', () => undefined)
  target.on('close', () => {
    unwatch()
    source.unpipe(target)
    source.resume()
  })
  return source.pipe(target)
}

/**
 * Calls `broken` once when a request's body will never be complete: the client is gone, the body can't be
 * decoded, or the signal is aborted. Calls `complete` at its end. Returns a function that ends the watch.
 */
function watchBody(
  body: Readable,
  signal: AbortSignal | undefined,
  broken: (reason: unknown) => void,
  complete = () => {},
): () => void {
  const aborted = () => end(signal?.reason)
  // An error after the end of the watch doesn't matter, but without a listener it would end the process.
  body.on('error', () => undefined)
  const stopWatching = finished(body, { writable: false }, (error) => {
    if (error) return end(bodyError(error))
    cleanUp()
    complete()
  })
  function cleanUp(): void {
    stopWatching()
    signal?.removeEventListener('abort', aborted)
  }
  function end(reason: unknown): void {
    cleanUp()
    broken(reason)
  }
  if (signal?.aborted) queueMicrotask(aborted)
  else signal?.addEventListener('abort', aborted, { once: true })
  return cleanUp
}

/** Turns an error of a request's body into the error of a client that went away or sent bad data. */
export function bodyError(error: unknown): unknown {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return error
  if (error.code === 'ERR_STREAM_PREMATURE_CLOSE' || error.code === 'ECONNRESET') {
    return new GitClientGone('the client went away before its request was complete', { cause: error })
  }
  if (error.code.startsWith('Z_')) {
    return new MalformedGitRequest('the request body is not valid gzip', { cause: error })
  }
  return error
}

export function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason))
}

/** Reads and drops a body: all of it, or its first gigabyte. */
export async function drainBody(body: Readable, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const end = (conclude: () => void) => {
      unwatch()
      body.off('data', count)
      conclude()
    }
    let size = 0
    const count = (chunk: Buffer) => {
      size += chunk.length
      if (size > MAX_DRAIN) end(resolve)
    }
    const fail = (reason: unknown) => end(() => reject(reason))
    const unwatch = watchBody(body, signal, fail, () => end(resolve))
    body.on('data', count)
    body.resume()
  })
}
