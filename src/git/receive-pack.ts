/** Receives a push: refuses it before git sees it, or lets git do it, records it, and only then answers. */
import type { Readable } from 'node:stream'
import { limitReached } from '../limits.ts'
import { inPieces } from '../pieces.ts'
import { acceptedPart, withRefused } from './accepted-part.ts'
import { type ArrivedPush, borrowedObject } from './borrowed-objects.ts'
import type { GitConfig } from './environment.ts'
import {
  GitOutputTooLarge,
  GitRequestTooLarge,
  GitUnavailable,
  MalformedGitRequest,
  PushUnrecorded,
  RepositoryMissing,
  TooManyRefs,
} from './errors.ts'
import { type HeldBody, holdBody } from './held-body.ts'
import { standardShare } from './limits.ts'
import { newRefProblem, refNameProblem } from './names.ts'
import { saysUnplaced, withReason } from './push-answer.ts'
import { answerHook, hookAsks, type PushRules, preparePushHook } from './push-hook.ts'
import type { PushJournal } from './push-journal.ts'
import { type PushRequest, readPushRequest, refusalReport, tooManyRefsAnswer } from './push-request.ts'
import { withQuarantine } from './quarantines.ts'
import { flushRefs, type RefChange, readRefs } from './refs.ts'
import { failureByInput } from './refused-input.ts'
import { drainBody } from './request-body.ts'
import { readSentPack, type SentPack, UNPACK_LIMIT } from './small-pack.ts'
import { startTransfer, type Transfer, type TransferOptions } from './transfer.ts'
import { unsentObject } from './unsent-objects.ts'

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
  ['receive.advertisePushOptions', 'true'],
  ['receive.denyDeleteCurrent', 'refuse'],
  // Refuse malformed commits and trees, and objects that attack the clients that fetch them.
  ['receive.fsckObjects', 'true'],
  ...HARMLESS_FAULTS.map((fault) => [`receive.fsck.${fault}`, 'ignore'] as const),
  ['receive.unpackLimit', `${UNPACK_LIMIT}`],
]

/** For packs of which only an index tells on what their deltas build. */
const INDEX_ALWAYS: GitConfig = [['receive.unpackLimit', '1']]

/** git's answer names each ref at most twice: there is room for 100,000 refs, the most that `MAX_PUSH_REFS` may be. */
const MAX_ANSWER = 64 * 1024 * 1024
/** How often git receives a push whose objects it could not move to their place. */
const TRIES = 3
/** More than the largest pack by this much is held, so that git itself sees that the pack is too large. */
const TOO_LARGE_BY = 1024 * 1024

/** The rules are read after `check`, which may still add names. */
export interface ReceiveOptions extends TransferOptions, Omit<PushRules, 'isAtomic'> {
  journal: PushJournal
  /**
   * Runs work when it is this repository's turn: one push at a time, on all servers that use the repository. Called
   * once for each push that git does, and again when a repack was in its way and no ref moved. When it rejects before
   * it has begun the work, git moves nothing.
   */
  inTurn(work: () => Promise<void>): Promise<void>
  /** Whether other servers may work on the repository: then what git leaves behind may be theirs. */
  isShared?: boolean
  /** The key of this repository in the journal. */
  key: string
  /** Largest pack in bytes; no limit when it is not set. */
  maxBytes?: number | undefined
  /** Most refs that a push may name. */
  maxRefs?: number
  /**
   * Decides before git sees anything. Gives a reason for each ref that must not be pushed. The other refs are pushed,
   * unless the client wants all or none (`--atomic`).
   */
  check(commands: readonly RefChange[]): Promise<ReadonlyMap<string, string>>
  /**
   * Decides when the whole push is here, and git has not started: by its size in bytes, for a push that brings
   * something. One reason refuses the whole push. `end` is called when the push is done, or was not.
   */
  admit?(
    commands: readonly RefChange[],
    bytes: number,
  ): Promise<{ reasons: ReadonlyMap<string, string>; end(isDone: boolean): void }>
  /**
   * Decides a second time: git has all objects, and is about to move the refs. Called in each turn, before `record`.
   * One reason refuses the whole push, and so does an error.
   */
  checkAgain?(commands: readonly RefChange[]): Promise<ReadonlyMap<string, string>>
  /**
   * Records what a push did, before the client gets its answer. Not called when no ref moved.
   *
   * Called inside `inTurn`, so for one push per repository at a time. Other code that moves refs may use the same
   * turns, but `record` itself must not: it would wait for itself.
   *
   * The log may know a move already: two pushes made the same move, or a recovery was faster. After a failure,
   * `from` may be older than the log. So trust only `to`.
   */
  record(updates: readonly RefChange[], pushOptions: readonly string[]): Promise<void>
}

/**
 * Does a push, and returns the answer to `POST …/git-receive-pack`, whose type is
 * `application/x-git-receive-pack-result`. `body` is the decoded request. All of it is read before a slot is taken and
 * git starts; git's answer is held back until `record` has resolved.
 *
 * When the body breaks off, git never starts. When git has started, the push is done and recorded even if the client
 * is gone. A push that takes too much time or memory is refused in git's own answer.
 *
 * A push of too many refs is refused in words, or with GitRequestTooLarge when its client cannot show any.
 *
 * @throws MalformedGitRequest, GitRequestTooLarge, GitClientGone, RepositoryMissing, GitUnavailable, SlotsFull,
 * GitFailed, PushUnrecorded, SigningFailed when `signingKey` can't be read, or what `check` throws
 */
export async function receivePack(dir: string, body: Readable, options: ReceiveOptions): Promise<Buffer> {
  // The client may go away while nobody reads. Without this listener, the error would end the process.
  body.on('error', () => undefined)
  const { client } = options.share ?? standardShare
  const reading = readPushRequest(body, { maxCommands: options.maxRefs, client })
  const whole = await reading.catch(async (error: unknown) => {
    // Some clients send everything before they read an answer.
    if (isClientsFault(error)) await drainBody(body, options.signal)
    return inWords(error)
  })
  if ('refusal' in whole) return whole.refusal
  // git clients send an empty push to test their credentials.
  if (whole.commands.length === 0) return Buffer.alloc(0)
  const refused = await refusals(whole, options.check, client)
  if (refused.size === 0) return await pushAccepted(dir, whole, body, options)
  if (refused.size === whole.commands.length || whole.capabilities.has('atomic')) {
    await drainBody(body, options.signal)
    return await refusalReport(whole, refused, client)
  }
  const answer = await pushAccepted(dir, await acceptedPart(whole, refused, client), body, options)
  return await withRefused(answer, whole, refused, client)
}

const isClientsFault = (error: unknown) =>
  error instanceof MalformedGitRequest || error instanceof GitRequestTooLarge

/** The refusal of a push that names too many refs, for a client that can show it. @throws any other error */
function inWords(error: unknown): { refusal: Buffer } {
  const refusal = error instanceof TooManyRefs ? tooManyRefsAnswer(error) : undefined
  if (refusal === undefined) throw error
  return { refusal }
}

/** Does a push of which nothing was refused. `body` is what follows after `push.front`. */
async function pushAccepted(
  dir: string,
  push: PushRequest,
  body: Readable,
  options: ReceiveOptions,
): Promise<Buffer> {
  const config: GitConfig =
    options.maxBytes === undefined
      ? RECEIVE_CONFIG
      : [...RECEIVE_CONFIG, ['receive.maxInputSize', String(options.maxBytes)]]
  const { maxBytes = Number.POSITIVE_INFINITY, signal, share: { client } = standardShare } = options
  const most = push.front.length + maxBytes + TOO_LARGE_BY
  const held = await holdBody(dir, body, { front: push.front, most, signal })
  // git itself refuses it, in words that its client knows.
  if (held.size - push.packStart > maxBytes) limitReached('push_bytes')
  let admitted: Awaited<ReturnType<NonNullable<ReceiveOptions['admit']>>> | undefined
  let isDone = false
  try {
    // A push that only deletes refs makes room.
    if (push.commands.some(({ to }) => to !== null))
      admitted = await options.admit?.(push.commands, held.size)
    if (admitted !== undefined && admitted.reasons.size > 0) {
      return await refusalReport(push, admitted.reasons, client)
    }
    const pack = await readSentPack(held.stream(push.packStart), held.size - push.packStart)
    const unsent = await unsentObject(dir, push.commands, pack.count)
    if (unsent !== undefined) return await refusalReport(push, reasonsOfMissing(push, unsent), client)
    const isAtomic = push.commands.length === 1 || push.capabilities.has('atomic')
    const hook = await preparePushHook(dir, push.commands, { ...options, isAtomic })
    try {
      const receive = () =>
        withQuarantine(dir, options.isShared ?? false, (brokenOff) =>
          runAndRecord(dir, { push, held, pack }, brokenOff, {
            ...options,
            asks: true,
            config: [...config, ...(pack.bases === undefined ? INDEX_ALWAYS : []), ...hook.config],
            env: hook.env,
          }),
        )
      let result = await receive()
      for (let left = TRIES - 1; left > 0 && result.isUnplaced; left -= 1) result = await receive()
      isDone = true
      return result.answer
    } finally {
      await hook.remove()
    }
  } finally {
    admitted?.end(isDone)
    await held.release()
  }
}

/** A push whose whole body is here. */
interface HeldPush {
  push: PushRequest
  held: HeldBody
  pack: SentPack
}

async function runAndRecord(
  dir: string,
  arrived: HeldPush,
  brokenOff: () => Promise<void>,
  options: ReceiveOptions & { config: GitConfig; env: Record<string, string> },
): Promise<{ answer: Buffer; isUnplaced?: boolean }> {
  const { push, held } = arrived
  const args = ['receive-pack', '--stateless-rpc', dir]
  const transfer = await startTransfer(args, options)
  const marker = await options.journal.begin(options.key, transfer.pid).catch(async (error: unknown) => {
    transfer.stop()
    await transfer.ended
    throw new GitUnavailable("the push can't be written to the journal", { cause: error })
  })
  const { workMs, client } = options.share ?? standardShare
  const running = runGit(transfer, held, workMs)
  const { channel } = transfer
  const quarantine = channel && (await Promise.race([hookAsks(channel), running.then(() => undefined)]))
  // Not in the turn: the walk may take long, and what it finds is refused even if a ref brings it back meanwhile.
  let refusal =
    quarantine === undefined
      ? undefined
      : await refusalOf(() => borrowed({ dir, quarantine, timeout: workMs, ...arrived }))
  let updates: RefChange[] = []
  let hasTurn = false
  try {
    // The turn begins before the refs move, so that nothing is decided between the question and the record.
    await options.inTurn(async () => {
      hasTurn = true
      if (channel !== undefined && quarantine !== undefined) {
        refusal ??= await refusalOf(() => options.checkAgain?.(push.commands))
        answerHook(channel, refusal === undefined)
      }
      const { ending } = await running
      if (ending.code === null) await brokenOff()
      updates = await appliedChanges(dir, push, client)
      if (updates.length > 0) await options.record(updates, push.options)
    })
  } catch (error) {
    if (channel !== undefined && quarantine !== undefined && !hasTurn) {
      answerHook(channel, false)
      await running
      await options.journal.finish(marker).catch(() => undefined)
      throw error
    }
    if (!(error instanceof RepositoryMissing)) {
      options.journal.abandon(marker)
      throw new PushUnrecorded('the push is done but not recorded yet', { cause: error })
    }
  }
  // The push is recorded. A marker that can't be removed only costs the next recovery a comparison.
  await options.journal.finish(marker).catch(() => undefined)
  const { answer, ending, late } = await running
  if (refusal !== undefined) {
    if ('error' in refusal) throw refusal.error
    return { answer: await refusalReport(push, refusal.reasons, client) }
  }
  if (late && updates.length === 0) {
    const reason = `the push took longer than ${Math.ceil(workMs / 1000)} s`
    const reasons = new Map(push.commands.map(({ ref }) => [ref, reason]))
    return { answer: await refusalReport(push, reasons, client) }
  }
  // Some of the refs moved. They are recorded, and the client sees them when it asks again.
  if (late) throw new GitUnavailable(`a push was ended after ${workMs} ms`)
  if (answer === undefined) {
    limitReached('git_output_bytes')
    throw new GitOutputTooLarge(`git's answer has more than ${MAX_ANSWER} bytes`)
  }
  if (ending.code !== 0 && answer.length === 0) throw failureByInput(args, ending, dir)
  return { answer: withReason(answer, push), isUnplaced: updates.length === 0 && saysUnplaced(answer) }
}

/** What is said against a push: reasons, or an error. Undefined when nothing is. */
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

/** One reason for all refs of a push that takes an object from the repository which no ref reaches. */
async function borrowed(arrived: ArrivedPush): Promise<ReadonlyMap<string, string>> {
  const missing = await borrowedObject(arrived)
  return missing === undefined ? new Map() : reasonsOfMissing(arrived.push, missing)
}

function reasonsOfMissing({ commands }: PushRequest, missing: string): ReadonlyMap<string, string> {
  const reason = `no branch or tag has ${missing}, and the push does not bring it`
  return new Map(commands.flatMap(({ ref, to }) => (to === null ? [] : [[ref, reason] as const])))
}

async function refusals(
  { commands }: PushRequest,
  check: ReceiveOptions['check'],
  client: string,
): Promise<ReadonlyMap<string, string>> {
  const problems = new Map<string, string>()
  const named: RefChange[] = []
  await inPieces(client, commands, (command) => {
    const { ref, from, to } = command
    const isNew = from === null && to !== null
    const problem = isNew ? newRefProblem(ref) : refNameProblem(ref)
    if (problem === undefined) named.push(command)
    else problems.set(ref, `the name ${problem}`)
  })
  if (named.length === 0) return problems
  const refused = await check(named)
  if (problems.size === 0) return refused
  await inPieces(client, refused, ([ref, reason]) => {
    problems.set(ref, reason)
  })
  return problems
}

/** The changes of the push that are in effect. When another push moved a ref on, that push records it. */
async function appliedChanges(dir: string, { commands }: PushRequest, client: string): Promise<RefChange[]> {
  const refs = commands.map(({ ref }) => ref)
  const now = await readRefs(dir, refs)
  const updates: RefChange[] = []
  await inPieces(client, commands, (command) => {
    const { ref, from, to } = command
    if (from !== to && now.get(ref) === to) updates.push(command)
  })
  const moved = updates.map(({ ref }) => ref)
  await flushRefs(dir, moved)
  return updates
}

/**
 * Gives the request to git. `answer`: git's answer to the client, undefined when it is too large. `late`: git was ended
 * because it took longer than `workMs`.
 */
async function runGit(transfer: Transfer, held: HeldBody, workMs: number) {
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
