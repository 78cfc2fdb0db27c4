/** Receives a push: refuses it before git sees it, or lets git do it, records it, and only then answers. */
import type { Readable } from 'node:stream'
import { inTurn } from '../turns.ts'
import { failureOf } from './child-process.ts'
import type { GitConfig } from './environment.ts'
import { GitOutputTooLarge, GitUnavailable, PushUnrecorded, RepositoryMissing } from './errors.ts'
import { refNameProblem } from './names.ts'
import { answerHook, hookAsks, preparePushHook } from './push-hook.ts'
import type { PushJournal } from './push-journal.ts'
import { type PushRequest, readPushRequest, refusalReport } from './push-request.ts'
import { flushRefs, type RefChange, readRefs } from './refs.ts'
import { drainBody, startStallTimer, watchBody } from './request-body.ts'
import type { TrustedKeys } from './signatures.ts'
import { startTransfer, type Transfer, type TransferOptions } from './transfer.ts'

/** Harmless faults that well-known old histories have. Commits with these faults may be pushed. */
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
  // Clients may fetch the refs of pull requests, but only the server moves them.
  ['receive.hideRefs', 'refs/pull/'],
  ['receive.denyDeleteCurrent', 'refuse'],
  // Refuse malformed commits and trees, and objects that attack the clients that fetch them.
  ['receive.fsckObjects', 'true'],
  ...HARMLESS_FAULTS.map((fault) => [`receive.fsck.${fault}`, 'ignore'] as const),
  // A pack costs three flushes to disk, each loose object one. So only small pushes become loose objects.
  ['receive.unpackLimit', '10'],
]

const FORWARD_ONLY: GitConfig = [['receive.denyNonFastForwards', 'true']]

/** git's answer names each ref at most twice: there is room for 100,000 refs. */
const MAX_ANSWER = 64 * 1024 * 1024
/** How long git may take to end after its input was cut off. */
const GRACE_MS = 10_000

export interface ReceiveOptions extends TransferOptions, TrustedKeys {
  journal: PushJournal
  /** The key of this repository in the journal. */
  key: string
  /** Largest pack in bytes; no limit when it is not set. */
  maxBytes?: number | undefined
  /**
   * Decides before git sees anything. Gives a reason for each ref that must not be pushed. One reason refuses the
   * whole push; the client sees all reasons.
   */
  check(commands: readonly RefChange[]): Promise<ReadonlyMap<string, string>>
  /**
   * Decides a second time: git has all objects, and is about to move the refs. Called in the same turn as `record`.
   * One reason refuses the whole push, and so does an error.
   */
  checkAgain?(commands: readonly RefChange[]): Promise<ReadonlyMap<string, string>>
  /**
   * Full names of refs that accept only commits with a good SSH signature by `allowedSigners` or `signingKey`. One
   * commit without it refuses the whole push. Read after `check`, which may still add names.
   */
  requireSigned?: readonly string[] | undefined
  /**
   * Full names of refs that must not be rewritten. git checks this when it has the objects. git's setting covers
   * the whole push: together with such a ref, no other branch can be rewritten. `check` may still add names.
   */
  forwardOnly?: readonly string[] | undefined
  /**
   * Records what a push did, before the client gets its answer. Not called when no ref moved.
   *
   * Called inside `inTurn(dir, …)`, so for one push per repository at a time. Other code that moves refs may use the
   * same turns, but `record` itself must not: it would wait for itself.
   *
   * The log may know a move already: two pushes made the same move, or a recovery was faster. After a failure,
   * `from` may be older than the log. So trust only `to`.
   */
  record(updates: readonly RefChange[]): Promise<void>
}

/**
 * Does a push, and returns the answer to `POST …/git-receive-pack`, whose type is
 * `application/x-git-receive-pack-result`. `body` is the decoded request. It streams to git; git's answer is held
 * back until `record` has resolved.
 *
 * When the body breaks off, git ends and moves nothing. When the body is complete, the push is done and recorded
 * even if the client is gone.
 *
 * @throws MalformedGitRequest, GitRequestTooLarge, GitClientGone, RepositoryMissing, GitUnavailable,
 * GitFailed, PushUnrecorded, SigningFailed when `signingKey` can't be read, or what `check` throws
 */
export async function receivePack(dir: string, body: Readable, options: ReceiveOptions): Promise<Buffer> {
  // The client may go away while nobody reads. Without this listener, the error would end the process.
  body.on('error', () => undefined)
  const push = await readPushRequest(body)
  // git clients send an empty push to test their credentials.
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
  const asks = options.checkAgain !== undefined
  const hook = await preparePushHook(push.commands, { ...options, asks })
  try {
    return await runAndRecord(dir, body, push, {
      ...options,
      asks,
      config: [...config, ...(guarded ? FORWARD_ONLY : []), ...hook.config],
      env: hook.env,
    })
  } finally {
    await hook.remove()
  }
}

async function runAndRecord(
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
  const running = runGit(transfer, push, body, options.signal)
  const { channel } = transfer
  // The turn begins before the refs move, so that nothing is decided between the question and the record.
  const asked = channel !== undefined && (await Promise.race([hookAsks(channel), running.then(() => false)]))
  let refusal: Awaited<ReturnType<typeof decideAgain>> | undefined
  try {
    await inTurn(dir, async () => {
      if (asked) refusal = await decideAgain(push, options)
      if (asked) answerHook(channel, refusal === undefined)
      await running
      const updates = await appliedChanges(dir, push)
      if (updates.length > 0) await options.record(updates)
    })
  } catch (error) {
    if (!(error instanceof RepositoryMissing)) {
      options.journal.abandon(marker)
      throw new PushUnrecorded('the push is done but not recorded yet', { cause: error })
    }
  }
  // The push is recorded. A marker that can't be removed only costs the next recovery a comparison.
  await options.journal.finish(marker).catch(() => undefined)
  const { answer, ending, broken } = await running
  if (refusal !== undefined) {
    if ('error' in refusal) throw refusal.error
    return refusalReport(push, refusal.reasons)
  }
  if (broken !== undefined) throw broken.reason
  if (answer === undefined) throw new GitOutputTooLarge(`git's answer has more than ${MAX_ANSWER} bytes`)
  if (ending.code !== 0 && answer.length === 0) throw failureOf(args, ending, dir)
  return answer
}

/** What the second decision says against a push: reasons, or an error. Undefined when it is still allowed. */
async function decideAgain(
  { commands }: PushRequest,
  { checkAgain }: ReceiveOptions,
): Promise<{ reasons: ReadonlyMap<string, string> } | { error: unknown } | undefined> {
  try {
    const reasons = (await checkAgain?.(commands)) ?? new Map()
    return reasons.size > 0 ? { reasons } : undefined
  } catch (error) {
    return { error }
  }
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

/** The changes of the push that are in effect. When another push moved a ref on, that push records it. */
async function appliedChanges(dir: string, { commands }: PushRequest): Promise<RefChange[]> {
  const refs = commands.map(({ ref }) => ref)
  const now = await readRefs(dir, refs)
  const updates = commands.filter(({ ref, from, to }) => from !== to && now.get(ref) === to)
  const moved = updates.map(({ ref }) => ref)
  await flushRefs(dir, moved)
  return updates
}

/**
 * Passes the body on to git. `answer`: git's answer to the client, undefined when it is too large. `broken`: set when
 * the request broke off.
 */
async function runGit(
  transfer: Transfer,
  push: PushRequest,
  body: Readable,
  signal: AbortSignal | undefined,
) {
  const chunks: Buffer[] = []
  let size = 0
  transfer.stdout.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= MAX_ANSWER) chunks.push(chunk)
  })

  let broken: { reason: unknown } | undefined
  let lastResort: NodeJS.Timeout | undefined
  const breakOff = (reason: unknown) => {
    if (broken !== undefined) return
    broken = { reason }
    stallTimer.stop()
    body.unpipe(transfer.stdin)
    // When its input is cut off, git moves no ref and cleans up. A signal could interrupt the cleanup.
    transfer.stdin.end()
    lastResort = setTimeout(transfer.stop, GRACE_MS)
  }
  const stallTimer = startStallTimer(breakOff)
  const unwatch = watchBody(body, signal, breakOff)
  body.on('data', stallTimer.restart)
  body.once('end', stallTimer.stop)
  transfer.stdin.once('close', () => {
    // git may refuse a pack early. The client reads the reason only after it has sent everything.
    body.unpipe(transfer.stdin)
    body.resume()
  })
  transfer.stdin.write(push.front)
  body.pipe(transfer.stdin)

  const ending = await transfer.ended
  clearTimeout(lastResort)
  unwatch()
  stallTimer.stop()
  body.off('data', stallTimer.restart)
  return { answer: size <= MAX_ANSWER ? Buffer.concat(chunks) : undefined, ending, broken }
}
