/** git's smart HTTP protocol for clones and fetches. `receive-pack.ts` handles pushes. */
import { Readable } from 'node:stream'
import { failureOf } from '../process/child-process.ts'
import type { GitConfig } from '../process/environment.ts'
import { GitFailed, GitUnavailable } from '../process/errors.ts'
import { standardShare } from '../process/limits.ts'
import { meteredOutput } from '../process/metered-output.ts'
import { failureByInput } from '../process/refused-input.ts'
import { RECEIVE_CONFIG } from '../push/receive-config.ts'
import { bufferBody } from './buffered-body.ts'
import { FLUSH, packet } from './pkt-line.ts'
import { asError, limitBody } from './request-body.ts'
import { startTransferNow, type TransferOptions } from './transfer.ts'
import { requestWithout } from './upload-request.ts'
import { checkNames } from './wants.ts'

export type GitService = 'git-upload-pack' | 'git-receive-pack'

export function isGitService(name: unknown): name is GitService {
  return name === 'git-upload-pack' || name === 'git-receive-pack'
}

const UPLOAD_CONFIG: GitConfig = [
  // Like hosting services, allow partial clones, and fetching a commit by its id. The server checks the ids itself.
  ['uploadpack.allowFilter', 'true'],
  ['uploadpack.allowTipSHA1InWant', 'true'],
  ['uploadpack.allowReachableSHA1InWant', 'true'],
  ['uploadpack.allowAnySHA1InWant', 'true'],
  // Other filters cost a walk of the whole history with a pattern for each path.
  ['uploadpackfilter.allow', 'false'],
  ['uploadpackfilter.blob:none.allow', 'true'],
  ['uploadpackfilter.blob:limit.allow', 'true'],
  ['uploadpackfilter.tree.allow', 'true'],
]

/** Maximum size of a request that names the client's wanted and existing commits, in bytes. */
const MAX_UPLOAD_REQUEST = 32 * 1024 * 1024

/**
 * Answers `GET …/info/refs?service=SERVICE`. Its type is `application/x-SERVICE-advertisement`, and it must not be cached.
 * @throws RepositoryMissing, GitUnavailable, GitFailed, SlotsFull: all before the first byte
 */
export async function advertiseRefs(
  dir: string,
  service: GitService,
  options: TransferOptions = {},
): Promise<Readable> {
  const command = service.slice('git-'.length)
  const args = [command, '--stateless-rpc', '--advertise-refs', dir]
  const config = service === 'git-upload-pack' ? UPLOAD_CONFIG : RECEIVE_CONFIG
  // Version 2 of the protocol has no `# service` header.
  const isVersion2 = service === 'git-upload-pack' && /(^|:)version=2(:|$)/.test(options.protocol ?? '')
  const front = isVersion2 ? [] : [Buffer.concat([packet(`# service=${service}\n`), Buffer.from(FLUSH)])]
  const release = await takeSlot(options)
  return await exchange(args, Readable.from([]), { ...options, config, release, front, failure: failureOf })
}

/**
 * Answers `POST …/git-upload-pack`, with type `application/x-git-upload-pack-result`. `body` is the decoded request.
 * All of it is read before a slot is taken. git is ended when the answer is destroyed (`pipeline` does this when the
 * client goes away), when it works for too long, or when the client reads too slowly.
 * @throws RepositoryMissing, GitUnavailable, GitFailed, MalformedGitRequest, GitClientGone, GitRequestTooLarge,
 * GitTooSlow, SlotsFull or the body's own error: all before the first byte
 */
export async function uploadPack(
  dir: string,
  body: Readable,
  options: TransferOptions = {},
): Promise<Readable> {
  const args = ['upload-pack', '--stateless-rpc', '--strict', dir]
  const held = await bufferBody(dir, limitBody(body, MAX_UPLOAD_REQUEST), options)
  let release = () => {}
  try {
    const giveSlot = await takeSlot(options)
    release = () => {
      giveSlot()
      void held.release()
    }
    const { signal } = options
    const { refused, hidden } = await checkNames(dir, held.stream(), signal)
    if (refused !== undefined) {
      release()
      // git's own message for an object that it does not serve.
      return Readable.from([packet(`ERR upload-pack: not our ref ${refused}`)])
    }
    const given = { ...options, config: UPLOAD_CONFIG, release, failure: failureByInput }
    const request =
      hidden.size === 0
        ? held.stream()
        : Readable.from(requestWithout(held.stream(), hidden), { objectMode: false })
    return await exchange(args, request, given)
  } catch (error) {
    release()
    await held.release()
    throw error
  }
}

const takeSlot = ({ share = standardShare, signal }: TransferOptions) =>
  share.slots.take(share.client, signal)

/** git's messages for a fetch of a history that does not exist. The protocol passes them to the client. */
const NOTHING_TO_SEND =
  /^fatal: (?:git upload-pack: )?(no commits selected for shallow requests|ambiguous deepen-not: .{1,500})/m

interface Exchange extends TransferOptions {
  config: GitConfig
  /** Called when git has ended. */
  release: () => void
  /** Sent before git's output. */
  front?: readonly Buffer[]
  /** The error when git ends without any output. */
  failure: typeof failureOf
}

/** Sends the request to git, and returns git's output as soon as the first bytes have arrived. */
async function exchange(args: readonly string[], request: Readable, options: Exchange): Promise<Readable> {
  const { signal, share = standardShare, front = [] } = options
  const transfer = await startTransferNow(args, options)
  let answer: Readable | undefined
  const stop = (reason: unknown) => {
    transfer.stop()
    answer?.destroy(asError(reason))
  }
  const aborted = () => stop(signal?.reason)
  if (signal?.aborted) aborted()
  else signal?.addEventListener('abort', aborted, { once: true })
  const rest = output()
  const end = () => {
    signal?.removeEventListener('abort', aborted)
    request.destroy()
    transfer.stop()
    // The generator may be waiting for a reader that has gone.
    rest.return(undefined).catch(() => undefined)
  }

  async function* output(): AsyncGenerator<Buffer> {
    try {
      yield* meteredOutput(transfer.stdout, share, stop)
    } catch (error) {
      signal?.throwIfAborted()
      throw error instanceof GitFailed ? error : ended(error)
    }
    // An answer that was cut off must not look complete.
    const { code, stderr } = await transfer.ended
    signal?.throwIfAborted()
    if (code === null) throw new GitFailed(args, code, stderr)
    const problem = code === 0 ? undefined : NOTHING_TO_SEND.exec(stderr)?.[1]
    if (problem !== undefined) yield packet(`ERR upload-pack: ${problem}`)
  }

  request.on('error', stop)
  request.pipe(transfer.stdin)
  try {
    const first = await rest.next()
    if (!first.done) {
      answer = Readable.from(joined([...front, first.value], rest), { objectMode: false })
      // Until the caller listens, errors are dropped.
      answer.on('error', () => undefined)
      return answer.once('close', end)
    }
    const ending = await transfer.ended
    if (ending.code !== 0) throw await options.failure(args, ending, args.at(-1))
    end()
    return Readable.from(front)
  } catch (error) {
    end()
    throw error
  }
}

async function* joined(first: readonly Buffer[], rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield* first
  yield* rest
}

/** The error of an output that broke off. */
function ended(error: unknown): unknown {
  const broken = error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE'
  return broken ? new GitUnavailable('git was ended before its output was complete', { cause: error }) : error
}
