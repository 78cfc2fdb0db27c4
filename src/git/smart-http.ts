/** git's smart HTTP, as far as clones and fetches go; `receive-pack.ts` is the side of pushes. */
import { once } from 'node:events'
import { type Duplex, PassThrough, pipeline, type Readable, Transform } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { GitFailed, GitRequestTooLarge, MalformedGitRequest, UnknownContentEncoding } from './errors.ts'
import { FLUSH, packet } from './pkt-line.ts'
import { RECEIVE_CONFIG } from './receive-pack.ts'
import { type GitConfig, throwIfHopeless } from './run.ts'
import { startTransfer, type TransferOptions, watchBody, watchStillness } from './transfer.ts'

export type GitService = 'git-upload-pack' | 'git-receive-pack'

export function isGitService(name: unknown): name is GitService {
  return name === 'git-upload-pack' || name === 'git-receive-pack'
}

const UPLOAD_CONFIG: GitConfig = [
  // What hosting services allow: partial clones, and fetching a commit by its id.
  ['uploadpack.allowFilter', 'true'],
  ['uploadpack.allowTipSHA1InWant', 'true'],
  ['uploadpack.allowReachableSHA1InWant', 'true'],
]

/** What a client may spend on saying what it wants and has. */
const MAX_UPLOAD_REQUEST = 64 * 1024 * 1024

/**
 * The answer to `GET …/info/refs?service=SERVICE`, to be sent as `application/x-SERVICE-advertisement`
 * and never cached.
 *
 * @throws RepositoryMissing, GitUnavailable, GitFailed: all before the first byte
 */
export async function advertiseRefs(
  dir: string,
  service: GitService,
  options: TransferOptions = {},
): Promise<Readable> {
  const command = service.slice('git-'.length)
  const args = [command, '--stateless-rpc', '--advertise-refs', dir]
  const config = service === 'git-upload-pack' ? UPLOAD_CONFIG : RECEIVE_CONFIG
  const body = new PassThrough()
  body.end()
  const answer = await converse(args, body, { ...options, config })
  // A client that asked for version 2 gets its capabilities without the older header.
  const isVersion2 = service === 'git-upload-pack' && /(^|:)version=2(:|$)/.test(options.protocol ?? '')
  if (!isVersion2) answer.unshift(Buffer.concat([packet(`# service=${service}\n`), Buffer.from(FLUSH)]))
  return answer
}

/**
 * The answer to `POST …/git-upload-pack`, to be sent as `application/x-git-upload-pack-result`. `body` is
 * the decoded request. git is ended when the body breaks off, when the answer is destroyed (as `pipeline`
 * does when the client goes away), or when nothing moves for ten minutes.
 *
 * @throws RepositoryMissing, GitUnavailable, GitFailed, GitClientGone, GitRequestTooLarge or the body's
 * own error: all before the first byte
 */
export async function uploadPack(
  dir: string,
  body: Readable,
  options: TransferOptions = {},
): Promise<Readable> {
  return await converse(
    ['upload-pack', '--stateless-rpc', '--strict', dir],
    limited(body, MAX_UPLOAD_REQUEST),
    {
      ...options,
      config: UPLOAD_CONFIG,
    },
  )
}

/** Gives git the body, and gives back what git says once it has said something. */
async function converse(
  args: readonly string[],
  body: Readable,
  options: TransferOptions & { config: GitConfig },
): Promise<Readable> {
  const transfer = await startTransfer(args, options)
  const answer = new Transform({
    transform(chunk, _encoding, done) {
      stillness.moved()
      done(null, chunk)
    },
    flush(done) {
      // An answer that was cut off must not look like one that has ended.
      transfer.ended.then(
        ({ code, stderr }) => done(code === null ? new GitFailed(args, code, stderr) : null),
        done,
      )
    },
  })
  // Until the caller listens, an error is told by a rejection or not at all.
  answer.on('error', () => undefined)
  const stop = (reason: unknown) =>
    answer.destroy(reason instanceof Error ? reason : new Error(String(reason)))
  const stillness = watchStillness(stop)
  // The body's end ends that watch, but a server that shuts down ends answers too.
  const unwatch = watchBody(body, undefined, stop)
  const { signal } = options
  const aborted = () => stop(signal?.reason)
  if (signal?.aborted) aborted()
  else signal?.addEventListener('abort', aborted, { once: true })
  pipeline(transfer.stdout, answer, () => {
    stillness.end()
    unwatch()
    signal?.removeEventListener('abort', aborted)
    transfer.stop()
    // What git did not want to read must not keep the connection waiting.
    body.unpipe(transfer.stdin)
    body.resume()
  })
  body.pipe(transfer.stdin)

  await once(answer, 'readable')
  if (answer.readableLength > 0) return answer
  const { code, stderr } = await transfer.ended
  if (code === 0) return answer
  answer.destroy()
  throwIfHopeless(stderr, args.at(-1))
  throw new GitFailed(args, code, stderr)
}

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
function limited(body: Readable, maxBytes: number): Readable {
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
  const unwatch = watchBody(source, undefined, (reason) => target.destroy(asClientError(reason)))
  target.on('close', () => {
    unwatch()
    source.unpipe(target)
    source.resume()
  })
  return source.pipe(target)
}

function asClientError(reason: unknown): Error {
  if (!(reason instanceof Error)) return new Error(String(reason))
  const isZlib = 'code' in reason && typeof reason.code === 'string' && /^Z_/.test(reason.code)
  return isZlib ? new MalformedGitRequest('the request body is not valid gzip', { cause: reason }) : reason
}
