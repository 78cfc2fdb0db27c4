/** A push: refused before git sees it, or carried out by git, recorded, and only then answered. */
import type { Readable } from 'node:stream'
import { inTurn } from '../turns.ts'
import { throwIfUnusable } from './child-process.ts'
import type { GitConfig } from './environment.ts'
import { GitFailed, GitOutputTooLarge, GitUnavailable, PushUnrecorded, RepositoryMissing } from './errors.ts'
import { refNameProblem } from './names.ts'
import type { PushJournal } from './push-journal.ts'
import { type PushRequest, readPushRequest, refusalReport } from './push-request.ts'
import { flushRefs, type RefChange, readRefs } from './refs.ts'
import { drainBody, watchBody, watchStillness } from './request-body.ts'
import type { TrustedKeys } from './signatures.ts'
import { prepareSignatureCheck } from './signed-pushes.ts'
import { startTransfer, type Transfer, type TransferOptions } from './transfer.ts'

/** Old faults that well-known histories have, and that do no harm: a repository that has them can be pushed. */
const HARMLESS_FAULTS = [
  'badDateOverflow',
  'badEmail',
  'badName',
  'badTimezone',
  'missingEmail',
  'missingNameBeforeEmail',
  'missingSpaceBeforeDate',
  'missingSpaceBeforeEmail',
  'multipleAuthors',
  'zeroPaddedDate',
  'zeroPaddedFilemode',
]

export const RECEIVE_CONFIG: GitConfig = [
  // Refs of pull requests are the server's to move; they are there for those who fetch.
  ['receive.hideRefs', 'refs/pull/'],
  ['receive.denyDeleteCurrent', 'refuse'],
  // Objects that are no sound commit or tree, or that attack the clients who fetch them, stay out.
  ['receive.fsckObjects', 'true'],
  ...HARMLESS_FAULTS.map((fault) => [`receive.fsck.${fault}`, 'ignore'] as const),
  // A pack costs three flushes to disk, a loose object one each: small pushes are loose, others stay packs.
  ['receive.unpackLimit', '10'],
]

const FORWARD_ONLY: GitConfig = [['receive.denyNonFastForwards', 'true']]

/** git's answer names each ref twice at most; 100,000 of them fit. */
const MAX_ANSWER = 64 * 1024 * 1024
const PATIENCE = 10_000

export interface ReceiveOptions extends TransferOptions, TrustedKeys {
  journal: PushJournal
  /** The journal's key for this repository. */
  key: string
  /** Largest pack in bytes; without it there is no limit. */
  maxBytes?: number | undefined
  /**
   * Decides before git sees anything: a reason for each ref that must not be pushed. One reason refuses
   * the whole push, and the client is shown all of them.
   */
  check(commands: readonly RefChange[]): Promise<ReadonlyMap<string, string>>
  /**
   * Full names of refs that take only commits with a good SSH signature by `allowedSigners` or `signingKey`.
   * One commit without refuses the whole push. Looked at after `check`, which may still fill it.
   */
  requireSigned?: readonly string[] | undefined
  /**
   * Full names of refs that only move forward. git refuses what rewrites them when it has the objects; its
   * setting is for a whole push, so beside such a ref no branch can be rewritten. `check` may still fill it.
   */
  forwardOnly?: readonly string[] | undefined
  /**
   * Told what a push did, before the client is. Called for one push per repository at a time (with
   * `inTurn(dir, …)`, which others who move refs may use too, but not `record` itself: it would wait
   * for itself), and not at all when no ref moved. The log may know a move already, when two pushes made the same one or a recovery was faster; and after
   * a failure `from` may be older than what the log knows. So: `to` is the truth.
   */
  record(updates: readonly RefChange[]): Promise<void>
}

/**
 * The answer to `POST …/git-receive-pack`, to be sent as `application/x-git-receive-pack-result`. `body` is
 * the decoded request; it streams to git, and git's answer is held back until `record` resolved.
 *
 * A body that breaks off lets git end by itself, which then moves nothing; a body that has ended is carried
 * out and recorded even when its client is gone.
 *
 * @throws MalformedGitRequest, GitRequestTooLarge, GitClientGone, RepositoryMissing, GitUnavailable,
 * GitFailed, PushUnrecorded, SigningFailed when `signingKey` can't be read, or what `check` throws
 */
export async function receivePack(dir: string, body: Readable, options: ReceiveOptions): Promise<Buffer> {
  // The client may go away while nobody reads; the next reader finds out, and no error may go unheard.
  body.on('error', () => undefined)
  const push = await readPushRequest(body)
  // git clients send a push of nothing to see whether their credentials are right.
  if (push.commands.length === 0) return Buffer.alloc(0)
  const reasons = await refusals(push, options.check)
  if (reasons.size > 0) {
    await drainBody(body, options.signal)
    return refusalReport(push, reasons)
  }

  const config: GitConfig =
    options.maxBytes === undefined
      ? RECEIVE_CONFIG
      : [...RECEIVE_CONFIG, ['receive.maxInputSize', String(options.maxBytes)]]
  const forwardOnly = new Set(options.forwardOnly)
  const guarded = push.commands.some(({ ref, to }) => to !== null && forwardOnly.has(ref))
  const signatureCheck = await prepareSignatureCheck(push.commands, options)
  try {
    return await carryOutAndRecord(dir, body, push, {
      ...options,
      config: [...config, ...(guarded ? FORWARD_ONLY : []), ...signatureCheck.config],
      env: signatureCheck.env,
    })
  } finally {
    await signatureCheck.remove()
  }
}

async function carryOutAndRecord(
  dir: string,
  body: Readable,
  push: PushRequest,
  options: ReceiveOptions & { config: GitConfig; env: Record<string, string> },
): Promise<Buffer> {
  const args = ['receive-pack', '--stateless-rpc', dir]
  const transfer = await startTransfer(args, options)
  const marker = await options.journal.begin(options.key, transfer.pid).catch(async (error: unknown) => {
    transfer.stop()
    await transfer.ended
    throw new GitUnavailable("the push can't be written to the journal", { cause: error })
  })
  const { answer, code, stderr, broken } = await carryOut(transfer, push, body, options.signal)
  try {
    await inTurn(dir, async () => {
      const updates = await doneUpdates(dir, push)
      if (updates.length > 0) await options.record(updates)
    })
  } catch (error) {
    if (!(error instanceof RepositoryMissing)) {
      options.journal.abandon(marker)
      throw new PushUnrecorded('the push is done but not recorded yet', { cause: error })
    }
  }
  // A marker that can't be removed costs the next recovery a comparison; the push is recorded all the same.
  await options.journal.finish(marker).catch(() => undefined)
  if (broken !== undefined) throw broken.reason
  if (answer === undefined) throw new GitOutputTooLarge(`git's answer has more than ${MAX_ANSWER} bytes`)
  if (code !== 0 && answer.length === 0) {
    throwIfUnusable(stderr, dir)
    throw new GitFailed(args, code, stderr)
  }
  return answer
}

async function refusals(
  { commands }: PushRequest,
  check: ReceiveOptions['check'],
): Promise<ReadonlyMap<string, string>> {
  const problems = new Map<string, string>()
  for (const { ref } of commands) {
    const problem = refNameProblem(ref)
    if (problem !== undefined) problems.set(ref, `the name ${problem}`)
  }
  return problems.size > 0 ? problems : await check(commands)
}

/** What the push asked for and what is so now. A ref that moved on since is told of by who moved it on. */
async function doneUpdates(dir: string, { commands }: PushRequest): Promise<RefChange[]> {
  const refs = commands.map(({ ref }) => ref)
  const now = await readRefs(dir, refs)
  const updates = commands.filter(({ ref, from, to }) => from !== to && now.get(ref) === to)
  await flushRefs(
    dir,
    updates.map(({ ref }) => ref),
  )
  return updates
}

interface CarriedOut {
  /** What git said to the client; undefined when it is too much. */
  answer: Buffer | undefined
  code: number | null
  stderr: string
  /** Set when the request was never complete. */
  broken: { reason: unknown } | undefined
}

async function carryOut(
  transfer: Transfer,
  push: PushRequest,
  body: Readable,
  signal: AbortSignal | undefined,
): Promise<CarriedOut> {
  const chunks: Buffer[] = []
  let size = 0
  transfer.stdout.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= MAX_ANSWER) chunks.push(chunk)
  })

  let broken: CarriedOut['broken']
  let lastResort: NodeJS.Timeout | undefined
  const breakOff = (reason: unknown) => {
    if (broken !== undefined) return
    broken = { reason }
    stillness.end()
    body.unpipe(transfer.stdin)
    // With its input cut off git moves no ref and cleans up; a signal might come in the middle of that.
    transfer.stdin.end()
    lastResort = setTimeout(transfer.stop, PATIENCE)
  }
  const stillness = watchStillness(breakOff)
  const unwatch = watchBody(body, signal, breakOff)
  body.on('data', stillness.moved)
  body.once('end', stillness.end)
  transfer.stdin.once('close', () => {
    // git may refuse a pack at its beginning; the client reads why when it has sent all of it.
    body.unpipe(transfer.stdin)
    body.resume()
  })
  transfer.stdin.write(push.front)
  body.pipe(transfer.stdin)

  const { code, stderr } = await transfer.ended
  clearTimeout(lastResort)
  unwatch()
  stillness.end()
  body.off('data', stillness.moved)
  return { answer: size <= MAX_ANSWER ? Buffer.concat(chunks) : undefined, code, stderr, broken }
}
