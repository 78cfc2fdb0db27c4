/** git's smart HTTP protocol for clones and fetches. `receive-pack.ts` handles pushes. */
import { once } from 'node:events'
import { PassThrough, pipeline, type Readable, Transform } from 'node:stream'
import { failureOf } from './child-process.ts'
import type { GitConfig } from './environment.ts'
import { GitFailed, MalformedGitRequest } from './errors.ts'
import { FLUSH, packet } from './pkt-line.ts'
import { RECEIVE_CONFIG } from './receive-pack.ts'
import { asError, limitBody, startStallTimer, watchBody } from './request-body.ts'
import { startTransfer, type TransferOptions } from './transfer.ts'

export type GitService = 'git-upload-pack' | 'git-receive-pack'

export function isGitService(name: unknown): name is GitService {
  return name === 'git-upload-pack' || name === 'git-receive-pack'
}

const UPLOAD_CONFIG: GitConfig = [
  // Allow what hosting services allow: partial clones, and fetching a commit by its id.
  ['uploadpack.allowFilter', 'true'],
  ['uploadpack.allowTipSHA1InWant', 'true'],
  ['uploadpack.allowReachableSHA1InWant', 'true'],
]

/** Most bytes of the request in which a client names the commits that it wants and has. */
const MAX_UPLOAD_REQUEST = 32 * 1024 * 1024

/**
 * The answer to `GET …/info/refs?service=SERVICE`. Its type is `application/x-SERVICE-advertisement`, and nobody
 * may cache it.
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
  const answer = await exchange(args, body, { ...options, config })
  // Version 2 of the protocol has no `# service` header.
  const isVersion2 = service === 'git-upload-pack' && /(^|:)version=2(:|$)/.test(options.protocol ?? '')
  if (!isVersion2) answer.unshift(Buffer.concat([packet(`# service=${service}\n`), Buffer.from(FLUSH)]))
  return answer
}

/**
 * The answer to `POST …/git-upload-pack`, of type `application/x-git-upload-pack-result`. `body` is the decoded
 * request. git is ended when the body breaks off, when the answer is destroyed (`pipeline` does this when the
 * client goes away), or when no byte moves for ten minutes.
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
    return await exchange(args, request, { ...options, config: UPLOAD_CONFIG })
  } catch (error) {
    const malformed = error instanceof GitFailed && CLIENTS_FAULT.test(error.stderr)
    throw malformed ? new MalformedGitRequest('this is not a git request', { cause: error }) : error
  }
}

/** Messages with which git ends because of the client. The exit code doesn't tell this. */
const CLIENTS_FAULT =
  /^fatal: (protocol error|git upload-pack: protocol error|the remote end hung up|unknown (capability|request)|unexpected (line|packet)|invalid command|no command)/m

/** Streams the body to git, and returns git's output as soon as the first bytes have arrived. */
async function exchange(
  args: readonly string[],
  body: Readable,
  options: TransferOptions & { config: GitConfig },
): Promise<Readable> {
  const transfer = await startTransfer(args, options)
  const answer = new Transform({
    transform(chunk, _encoding, done) {
      stallTimer.restart()
      done(null, chunk)
    },
    flush(done) {
      // An answer that was cut off must not look complete.
      transfer.ended.then(
        ({ code, stderr }) => done(code === null ? new GitFailed(args, code, stderr) : null),
        done,
      )
    },
  })
  // Until the caller listens, errors reject the promise or are dropped.
  answer.on('error', () => undefined)
  const stop = (reason: unknown) => answer.destroy(asError(reason))
  const stallTimer = startStallTimer(stop)
  // `watchBody` ends with the body, but the server's shutdown must end the answer too.
  const unwatch = watchBody(body, undefined, stop)
  const { signal } = options
  const aborted = () => stop(signal?.reason)
  if (signal?.aborted) aborted()
  else signal?.addEventListener('abort', aborted, { once: true })
  pipeline(transfer.stdout, answer, () => {
    stallTimer.stop()
    unwatch()
    signal?.removeEventListener('abort', aborted)
    transfer.stop()
    // Drop the input that git did not read, so that the connection doesn't wait for it.
    body.unpipe(transfer.stdin)
    body.resume()
  })
  body.pipe(transfer.stdin)

  await once(answer, 'readable')
  if (answer.readableLength > 0) return answer
  const ending = await transfer.ended
  if (ending.code === 0) return answer
  answer.destroy()
  throw failureOf(args, ending, args.at(-1))
}
