/** Receives a push: refuses it before git sees it, or runs git, records the push, and only then answers. */
import type { Readable } from 'node:stream'
import { forEachInSlices } from '../../concurrency/event-loop.ts'
import { limitReached } from '../../errors/limits.ts'
import { diskFull, isDiskFull } from '../../storage/disk-full.ts'
import { bufferBody } from '../http/buffered-body.ts'
import { drainBody } from '../http/request-body.ts'
import { sizeProblem } from '../objects/pack-sizes.ts'
import { readSentPack } from '../objects/small-pack.ts'
import type { GitConfig } from '../process/environment.ts'
import { GitRequestTooLarge, MalformedGitRequest, PushUnrecorded, TooManyRefs } from '../process/errors.ts'
import { standardShare } from '../process/limits.ts'
import { newRefProblem, refNameProblem } from '../refs/names.ts'
import type { RefChange } from '../refs/refs.ts'
import { isAtomicRefusal, toAtomicDeletion } from '../repository/atomic-deletion.ts'
import { withQuarantine } from '../repository/quarantines.ts'
import { acceptedPart, withRefusals } from './accepted-part.ts'
import { type BufferedPush, type ExclusivePushOptions, pushExclusively } from './exclusive-push.ts'
import { findMissingObject } from './missing-objects.ts'
import { type PushRules, preparePushHook } from './push-hook.ts'
import {
  canShowText,
  type PushRequest,
  readPushRequest,
  reasonsOfMissing,
  reasonsOfNew,
  refusalReport,
  textAnswer,
  tooManyRefsAnswer,
} from './push-request.ts'
import { INDEX_ALWAYS, RECEIVE_CONFIG } from './receive-config.ts'

/** Maximum number of attempts when git can't move the objects out of the quarantine. */
const MAX_ATTEMPTS = 3
/** Number of bytes buffered beyond the limit, so that git itself refuses the pack as too large. */
const EXTRA_BYTES = 1024 * 1024

/** The rules are read after `check`, which may still add names. */
export interface ReceiveOptions extends ExclusivePushOptions, Omit<PushRules, 'isAtomic'> {
  /** Whether other servers may work on the repository: then git's leftovers may be theirs. */
  isShared?: boolean
  /** Maximum size of a pack, in bytes; default no limit. */
  maxBytes?: number | undefined
  /** Maximum size of an object, in bytes; default no limit. */
  maxObjectBytes?: number
  /** Maximum number of refs of a push. */
  maxRefs?: number
  /**
   * Checks the push before git sees it. Returns a reason for each refused ref. The other refs are pushed, unless the client
   * wants all or none (`--atomic`).
   */
  check(commands: readonly RefChange[]): Promise<ReadonlyMap<string, string>>
  /**
   * Checks the size in bytes of a push that brings objects, after the push body has been read and before git starts. A
   * reason refuses the whole push. `end` is called after the push, whether it succeeded or not.
   */
  admit?(
    commands: readonly RefChange[],
    bytes: number,
  ): Promise<{ reasons: ReadonlyMap<string, string>; end(isDone: boolean): void }>
}

/**
 * Receives a push, and returns the answer to `POST …/git-receive-pack`, whose type is
 * `application/x-git-receive-pack-result`. `body` is the decoded request. It is read completely before a slot is taken and
 * git starts; git's answer is held back until `record` has resolved.
 * When the body breaks off, git never starts. When git has started, the push is applied and recorded even if the client
 * disconnects. A push that exceeds the time, memory or disk is refused in git's own answer.
 * A push of too many refs is refused with a text, or with GitRequestTooLarge when its client cannot show one.
 * @throws MalformedGitRequest, GitRequestTooLarge, GitClientGone, RepositoryMissing, GitUnavailable, SlotsFull, GitFailed,
 * PushUnrecorded, SigningFailed when `signingKey` can't be read, or the error of `check`
 */
export async function receivePack(dir: string, body: Readable, options: ReceiveOptions): Promise<Buffer> {
  // The client may disconnect while the body has no reader. Without this listener, the error would end the process.
  body.on('error', () => undefined)
  const reading = readPushRequest(body, { maxCommands: options.maxRefs })
  const push = await reading.catch(async (error: unknown) => {
    // Some clients send everything before they read an answer.
    if (isClientsFault(error)) await drainBody(body, options.signal)
    return toTextAnswer(error)
  })
  if ('refusal' in push) return push.refusal
  // git clients send an empty push to test their credentials.
  if (push.commands.length === 0) return Buffer.alloc(0)
  const refused = await refusals(push, options.check)
  if (refused.size === 0) return await pushAccepted(dir, push, body, options)
  if (refused.size === push.commands.length || push.capabilities.has('atomic')) {
    await drainBody(body, options.signal)
    return await refusalReport(push, refused)
  }
  const answer = await pushAccepted(dir, await acceptedPart(push, refused), body, options)
  return await withRefusals(answer, push, refused)
}

const isClientsFault = (error: unknown) =>
  error instanceof MalformedGitRequest || error instanceof GitRequestTooLarge

/** Answers a push of too many refs with a text, if its client can show one. @throws any other error */
function toTextAnswer(error: unknown): { refusal: Buffer } {
  const refusal = error instanceof TooManyRefs ? tooManyRefsAnswer(error) : undefined
  if (refusal === undefined) throw error
  return { refusal }
}

/** Runs a push without refused refs. `body` continues after `push.front`. Answers a full disk with a text. */
async function pushAccepted(
  dir: string,
  push: PushRequest,
  body: Readable,
  options: ReceiveOptions,
): Promise<Buffer> {
  try {
    return await pushHeld(dir, push, body, options)
  } catch (error) {
    // Git clients do not show the body of an HTTP error.
    if (!isDiskFull(error) || !canShowText(push)) throw error
    limitReached('disk_full')
    await drainBody(body, options.signal)
    if (error instanceof PushUnrecorded)
      return textAnswer(`the push is not recorded yet: ${diskFull.message}\n`)
    const reasons = new Map(push.commands.map(({ ref }) => [ref, diskFull.message]))
    return await refusalReport(push, reasons)
  }
}

async function pushHeld(
  dir: string,
  push: PushRequest,
  body: Readable,
  options: ReceiveOptions,
): Promise<Buffer> {
  const config: GitConfig =
    options.maxBytes === undefined
      ? RECEIVE_CONFIG
      : [...RECEIVE_CONFIG, ['receive.maxInputSize', String(options.maxBytes)]]
  const { maxBytes = Number.POSITIVE_INFINITY, maxObjectBytes: most = Number.POSITIVE_INFINITY } = options
  const { signal, share: { workMs } = standardShare } = options
  const mostHeld = push.front.length + maxBytes + EXTRA_BYTES
  const held = await bufferBody(dir, body, { front: push.front, most: mostHeld, signal })
  // git refuses the pack itself, with a message that clients know.
  if (held.size - push.packStart > maxBytes) limitReached('push_bytes')
  let admitted: Awaited<ReturnType<NonNullable<ReceiveOptions['admit']>>> | undefined
  let isDone = false
  try {
    // A push that only deletes refs frees space.
    if (push.commands.some(({ to }) => to !== null))
      admitted = await options.admit?.(push.commands, held.size)
    if (admitted !== undefined && admitted.reasons.size > 0) {
      return await refusalReport(push, admitted.reasons)
    }
    const problem =
      most === Number.POSITIVE_INFINITY
        ? undefined
        : await sizeProblem(held.stream(push.packStart), { most, workMs })
    if (problem !== undefined) return await refusalReport(push, reasonsOfNew(push, problem))
    const pack = await readSentPack(held.stream(push.packStart), held.size - push.packStart)
    const unsent = await findMissingObject(dir, push.commands, pack.count)
    if (unsent !== undefined) return await refusalReport(push, reasonsOfMissing(push, unsent))
    const isAtomic = push.commands.length === 1 || push.capabilities.has('atomic')
    const hook = await preparePushHook(dir, push.commands, { ...options, isAtomic })
    try {
      const receive = (arrived: BufferedPush) =>
        withQuarantine(dir, options.isShared ?? false, (brokenOff) =>
          pushExclusively(dir, arrived, brokenOff, {
            ...options,
            asks: true,
            config: [...config, ...(pack.bases === undefined ? INDEX_ALWAYS : []), ...hook.config],
            env: hook.env,
          }),
        )
      const arrived: BufferedPush = { push, held, pack }
      const together = await toAtomicDeletion(arrived)
      let result = await receive(together ?? arrived)
      if (together !== undefined && result.isOfGit && (await isAtomicRefusal(result.answer, push)))
        result = await receive(arrived)
      for (let left = MAX_ATTEMPTS - 1; left > 0 && result.isUnplaced; left -= 1)
        result = await receive(arrived)
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

async function refusals(
  { commands }: PushRequest,
  check: ReceiveOptions['check'],
): Promise<ReadonlyMap<string, string>> {
  const problems = new Map<string, string>()
  const named: RefChange[] = []
  await forEachInSlices(commands, (command) => {
    const { ref, from, to } = command
    const isNew = from === null && to !== null
    const problem = isNew ? newRefProblem(ref) : refNameProblem(ref)
    if (problem === undefined) named.push(command)
    else problems.set(ref, `the name ${problem}`)
  })
  if (named.length === 0) return problems
  const refused = await check(named)
  if (problems.size === 0) return refused
  await forEachInSlices(refused, ([ref, reason]) => {
    problems.set(ref, reason)
  })
  return problems
}
