/** git's smart HTTP, as far as clones and fetches go; `receive-pack.ts` is the side of pushes. */
import { once } from 'node:events'
import { PassThrough, pipeline, type Readable, Transform } from 'node:stream'
import { throwIfUnusable } from './child-process.ts'
import type { GitConfig } from './environment.ts'
import { GitFailed, MalformedGitRequest } from './errors.ts'
import { FLUSH, packet } from './pkt-line.ts'
import { RECEIVE_CONFIG } from './receive-pack.ts'
import { asError, limitBody, watchBody, watchStillness } from './request-body.ts'
import { startTransfer, type TransferOptions } from './transfer.ts'

// Whoever serves `uploadPack` decodes its request first.
export { decodeBody } from './request-body.ts'

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
const MAX_UPLOAD_REQUEST = 32 * 1024 * 1024

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
 * @throws RepositoryMissing, GitUnavailable, GitFailed, MalformedGitRequest, GitClientGone,
 * GitRequestTooLarge or the body's own error: all before the first byte
 */
export async function uploadPack(
  dir: string,
  body: Readable,
  options: TransferOptions = {},
): Promise<Readable> {
  const args = ['upload-pack', '--stateless-rpc', '--strict', dir]
  const request = limitBody(body, MAX_UPLOAD_REQUEST)
  try {
    return await converse(args, request, { ...options, config: UPLOAD_CONFIG })
  } catch (error) {
    const malformed = error instanceof GitFailed && CLIENTS_FAULT.test(error.stderr)
    throw malformed ? new MalformedGitRequest('this is no git request', { cause: error }) : error
  }
}

/** git only tells in words that it ended because of what the client said. */
const CLIENTS_FAULT =
  /^fatal: (protocol error|git upload-pack: protocol error|the remote end hung up|unknown (capability|request)|unexpected (line|packet)|invalid command|no command)/m

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
  const stop = (reason: unknown) => answer.destroy(asError(reason))
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
  throwIfUnusable(stderr, args.at(-1))
  throw new GitFailed(args, code, stderr)
}
