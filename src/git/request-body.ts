/** The body of a git client's request: decoded, bounded, watched, and never trusted to end. */
import { type Duplex, finished, PassThrough, type Readable, Transform } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { GitClientGone, GitRequestTooLarge, MalformedGitRequest, UnknownContentEncoding } from './errors.ts'

/** A client that neither sends nor takes a byte for so long, in milliseconds, has lost its place. */
const STILLNESS = 600_000
/** What is read of a push that is refused, so that the client comes to reading why. */
const MAX_DRAIN = 1024 ** 3

/**
 * The bytes that a client meant: `body` without its Content-Encoding.
 *
 * @throws UnknownContentEncoding
 */
export function decodeBody(body: Readable, contentEncoding: string | undefined): Readable {
  const encoding = contentEncoding?.trim().toLowerCase() ?? ''
  if (encoding === '' || encoding === 'identity') return body
  if (encoding !== 'gzip' && encoding !== 'x-gzip') {
    throw new UnknownContentEncoding('the request body must be gzip or identity')
  }
  return passOn(passOn(body, createGunzip()), new PassThrough())
}

/** The same bytes, ending in an error once they are more than `maxBytes`: what gzip made small is measured whole. */
export function limitBody(body: Readable, maxBytes: number): Readable {
  let size = 0
  const counted = new Transform({
    transform(chunk, _encoding, done) {
      size += chunk.length
      if (size <= maxBytes) done(null, chunk)
      else done(new GitRequestTooLarge(`the request may have ${maxBytes} bytes`))
    },
  })
  return passOn(body, counted)
}

/**
 * Pipes with errors passed on. Unlike `pipeline` it does not destroy the source when the target fails:
 * the source is a request, and its connection is still needed for the answer.
 */
function passOn<Target extends Duplex>(source: Readable, target: Target): Target {
  const unwatch = watchBody(source, undefined, (reason) => target.destroy(asError(reason)))
  // Nobody may be listening yet when the client goes away; whoever reads then finds the error.
  target.on('error', () => undefined)
  target.on('close', () => {
    unwatch()
    source.unpipe(target)
    source.resume()
  })
  return source.pipe(target)
}

/**
 * Calls `broken` once when a request's body will never be complete: its client is gone, it can't be
 * decoded, or the signal is aborted. Gives a function that ends the watch.
 */
export function watchBody(
  body: Readable,
  signal: AbortSignal | undefined,
  broken: (reason: unknown) => void,
): () => void {
  const aborted = () => end(signal?.reason)
  // An error that comes when nobody watches any more is of no interest, but would end the process.
  body.on('error', () => undefined)
  const stopWatching = finished(body, { writable: false }, (error) => {
    if (error) end(bodyError(error))
    else cleanUp()
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

/** Calls `still` when `moved` was not called for ten minutes; `end` stops that. */
export function watchStillness(still: (reason: GitClientGone) => void): { moved(): void; end(): void } {
  const timer = setTimeout(() => {
    still(new GitClientGone(`nothing moved for ${STILLNESS / 1000} s`))
  }, STILLNESS)
  return { moved: () => timer.refresh(), end: () => clearTimeout(timer) }
}

/** What an error of a request's body says of the client. */
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

/** Reads a body and forgets it: to its end, or a gigabyte of it. */
export async function drainBody(body: Readable, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const end = (conclude: () => void) => {
      stillness.end()
      unwatch()
      stopWaiting()
      body.off('data', count)
      conclude()
    }
    let size = 0
    const count = (chunk: Buffer) => {
      stillness.moved()
      size += chunk.length
      if (size > MAX_DRAIN) end(resolve)
    }
    const stillness = watchStillness((reason) => end(() => reject(reason)))
    const unwatch = watchBody(body, signal, (reason) => end(() => reject(reason)))
    const stopWaiting = finished(body, { writable: false }, (error) => {
      if (!error) end(resolve)
    })
    body.on('data', count)
    body.resume()
  })
}
