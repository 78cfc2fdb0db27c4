/**
 * Runs git for a push, under the lock of its repository: checks the push a second time, and records it before the client
 * gets an answer.
 */

import { forEachInSlices } from '../../concurrency/event-loop.ts'
import { limitReached } from '../../errors/limits.ts'
import type { BufferedBody } from '../http/buffered-body.ts'
import { startTransfer, type Transfer, type TransferOptions } from '../http/transfer.ts'
import type { SentPack } from '../objects/small-pack.ts'
import type { GitConfig } from '../process/environment.ts'
import { GitOutputTooLarge, GitUnavailable, PushUnrecorded, RepositoryMissing } from '../process/errors.ts'
import { standardShare } from '../process/limits.ts'
import { failureByInput } from '../process/refused-input.ts'
import { flushRefs, type RefChange, readRefs } from '../refs/refs.ts'
import { freeLocks, LOCKED_WITH_REFS } from '../repository/leftovers.ts'
import { createRefBatch, newRefBatch, PROC_RECEIVE_NEW_REFS } from '../repository/ref-creation-batch.ts'
import { isMigrationFailure, withReason } from './push-answer.ts'
import { answerHook, answerRefCreation, hookCreatesRefs, hookRequest } from './push-hook.ts'
import type { PushJournal } from './push-journal.ts'
import { type PushRequest, reasonsOfMissing, reasonsOfUnreached, refusalReport } from './push-request.ts'
import { findUnreachableObject, type ReceivedPush } from './unreachable-objects.ts'

/**
 * Maximum size of git's answer, in bytes. It names each ref at most twice: enough for 100,000 refs, the maximum of
 * `MAX_PUSH_REFS`.
 */
const MAX_ANSWER = 64 * 1024 * 1024

export interface ExclusivePushOptions extends TransferOptions {
  journal: PushJournal
  /** The key of this repository in the journal. */
  key: string
  /**
   * Runs work under the repository's lock: one push at a time, on all servers that use the repository. Called for each
   * run of git; a repack may require another run. When it rejects before it has started the work, git moves nothing.
   */
  runExclusive(work: () => Promise<void>): Promise<void>
  /**
   * Checks the push again under the lock, before `record`: git has all objects and is about to move the refs. A reason
   * refuses the whole push, and so does an error.
   */
  checkAgain?(commands: readonly RefChange[]): Promise<ReadonlyMap<string, string>>
  /**
   * Records the moved refs, before the client gets its answer. Not called when no ref moved. Called inside
   * `runExclusive`. `record` must not take that lock: it would deadlock. The log may know a move already: two pushes
   * made the same move, or a recovery was faster. After a failure, `from` may be older than the log. So trust only
   * `to`.
   */
  record(updates: readonly RefChange[], pushOptions: readonly string[]): Promise<void>
}

/** A push whose body has been read completely. */
export interface BufferedPush {
  push: PushRequest
  held: BufferedBody
  pack: SentPack
}

/**
 * Gives a push to git. When git is about to move the refs, the push waits for the lock, is checked a second time, and
 * is recorded. Resolves to the answer for the client; `isOfGit`: git decided and wrote the answer; `isUnplaced`: git
 * could not move the objects out of the quarantine, and no ref moved. `brokenOff` is called when a signal ended git.
 * @throws GitUnavailable, GitFailed, GitOutputTooLarge, PushUnrecorded, the error of `runExclusive` before it has
 * started the work, or the error of `checkAgain`
 */
export async function pushExclusively(
  dir: string,
  arrived: BufferedPush,
  brokenOff: () => Promise<void>,
  options: ExclusivePushOptions & { config: GitConfig; env: Record<string, string> },
): Promise<{ answer: Buffer; isOfGit?: boolean; isUnplaced?: boolean }> {
  const { push, held } = arrived
  const args = ['receive-pack', '--stateless-rpc', dir]
  const { workMs } = options.share ?? standardShare
  const newRefs = newRefBatch(push, Object.keys(options.env).length > 0)
  const config = newRefs === undefined ? options.config : [...options.config, ...PROC_RECEIVE_NEW_REFS]
  const transfer = await startTransfer(args, { ...options, config })
  const marker = await options.journal.begin(options.key, transfer.pid).catch(async (error: unknown) => {
    transfer.stop()
    await transfer.ended
    throw new GitUnavailable("the push can't be written to the journal", { cause: error })
  })
  const running = runGit(transfer, held, workMs)
  const { channel } = transfer
  const quarantine = channel && (await Promise.race([hookRequest(channel), running.then(() => undefined)]))
  // Outside the lock, because the walk may take long. The refusal stands even if a ref reaches the object meanwhile.
  let refusal =
    quarantine === undefined
      ? undefined
      : await refusalOf(() => checkReachability({ dir, quarantine, timeout: workMs, ...arrived }))
  let updates: RefChange[] = []
  let hasLock = false
  let isRecorded = true
  try {
    // The lock is taken before the refs move, so that no other decision falls between the check and the record.
    await options.runExclusive(async () => {
      hasLock = true
      if (channel !== undefined && quarantine !== undefined) {
        refusal ??= await refusalOf(() => options.checkAgain?.(push.commands))
        if (refusal === undefined)
          await freeLocks(dir, [...LOCKED_WITH_REFS, ...push.commands.map(({ ref }) => ref)])
        const creation = newRefs && hookCreatesRefs(channel).then(() => newRefs)
        answerHook(channel, refusal === undefined)
        const batch = await Promise.race([creation, running.then(() => undefined)])
        if (batch !== undefined) answerRefCreation(channel, await createRefBatch(dir, batch, push))
      }
      const { ending } = await running
      if (ending.code === null) await brokenOff()
      updates = await appliedChanges(dir, push)
      if (updates.length > 0) await options.record(updates, push.options)
    })
  } catch (error) {
    if (channel !== undefined && quarantine !== undefined && !hasLock) {
      answerHook(channel, false)
      await running
      await options.journal.finish(marker).catch(() => undefined)
      throw error
    }
    // Also for a missing repository: only the log knows whether it was deleted, and recovery reads it.
    isRecorded = false
    options.journal.abandon(marker)
    if (!(error instanceof RepositoryMissing) || updates.length > 0)
      throw new PushUnrecorded('the push is done but not recorded yet', { cause: error })
  }
  // A marker that can't be removed only costs the next recovery a comparison.
  if (isRecorded) await options.journal.finish(marker).catch(() => undefined)
  const { answer, ending, late } = await running
  if (refusal !== undefined) {
    if ('error' in refusal) throw refusal.error
    return { answer: await refusalReport(push, refusal.reasons) }
  }
  if (late && updates.length === 0) {
    const reason = `the push took longer than ${Math.ceil(workMs / 1000)} s`
    const reasons = new Map(push.commands.map(({ ref }) => [ref, reason]))
    return { answer: await refusalReport(push, reasons) }
  }
  // Some of the refs moved. They are recorded, and the client sees them when it asks again.
  if (late) throw new GitUnavailable(`a push was ended after ${workMs} ms`)
  if (answer === undefined) {
    limitReached('git_output_bytes')
    throw new GitOutputTooLarge(`git's answer has more than ${MAX_ANSWER} bytes`)
  }
  if (ending.code !== 0 && answer.length === 0) throw await failureByInput(args, ending, dir)
  const isUnplaced = updates.length === 0 && isMigrationFailure(answer)
  return { answer: withReason(answer, push), isOfGit: true, isUnplaced }
}

/** The refusal of a push: reasons by ref, or an error. */
type PushRefusal = { reasons: ReadonlyMap<string, string> } | { error: unknown }

async function refusalOf(
  decide: () => Promise<ReadonlyMap<string, string>> | undefined,
): Promise<PushRefusal | undefined> {
  try {
    const reasons = (await decide()) ?? new Map()
    return reasons.size > 0 ? { reasons } : undefined
  } catch (error) {
    return { error }
  }
}

/** Refuses all refs of a push that uses or brings an unreachable object. */
async function checkReachability(arrived: ReceivedPush): Promise<ReadonlyMap<string, string>> {
  const found = await findUnreachableObject(arrived)
  if (found === undefined) return new Map()
  return 'borrowed' in found
    ? reasonsOfMissing(arrived.push, found.borrowed)
    : reasonsOfUnreached(arrived.push, found.unreached)
}

/** Returns the changes that are in effect. When another push moved a ref further, that push records it. */
async function appliedChanges(dir: string, { commands }: PushRequest): Promise<RefChange[]> {
  const refs = commands.map(({ ref }) => ref)
  const now = await readRefs(dir, refs)
  const updates: RefChange[] = []
  await forEachInSlices(commands, (command) => {
    const { ref, from, to } = command
    if (from !== to && now.get(ref) === to) updates.push(command)
  })
  const moved = updates.map(({ ref }) => ref)
  await flushRefs(dir, moved)
  return updates
}

/**
 * Sends the request to git. `answer`: git's answer to the client; undefined when it is too large. `late`: git was ended
 * because it took longer than `workMs`.
 */
async function runGit(transfer: Transfer, held: BufferedBody, workMs: number) {
  const chunks: Buffer[] = []
  let size = 0
  transfer.stdout.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= MAX_ANSWER) chunks.push(chunk)
  })
  let late = false
  const timer = setTimeout(() => {
    late = true
    limitReached('git_time')
    transfer.stop()
  }, workMs)
  const request = held.stream()
  request.on('error', transfer.stop)
  // git may refuse a pack early.
  transfer.stdin.once('close', () => request.destroy())
  request.pipe(transfer.stdin)
  const ending = await transfer.ended
  clearTimeout(timer)
  return { answer: size <= MAX_ANSWER ? Buffer.concat(chunks) : undefined, ending, late }
}
