/**
 * Reads the objects of one repository through one git process that stays (`git cat-file --batch-command`).
 * Starting a process for each question would hold the event loop.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { Socket } from 'node:net'
import type { Slots } from '../turns.ts'
import { type ObjectAnswer, splitAnswers } from './batch-answers.ts'
import { cannotStart, collectStderr, signalGroup, throwIfUnusable } from './child-process.ts'
import { gitEnvironment } from './environment.ts'
import { GitFailed, GitUnavailable } from './errors.ts'

const ARGS = ['cat-file', '--batch-command', '--buffer'] as const
/** Read larger objects with a process of their own: other questions would wait behind them. */
export const MAX_READ_BYTES = 1024 * 1024

const environment = gitEnvironment([['core.deltaBaseCacheLimit', '8m']])

export interface Question {
  command: 'info' | 'contents'
  /**
   * A whole object id, which `^{commit}` may follow. Names of refs don't work: git takes a missing
   * `refs/heads/a` for `refs/heads/refs/heads/a`, and a name that ends in `-g` and digits for a commit's id.
   */
  name: string
}

/** Answers in the order of their questions; undefined for an object that does not exist. */
export type Answers = (ObjectAnswer | undefined)[]

export interface ObjectReader {
  /** Asks several questions together. @throws GitUnavailable, GitFailed, RepositoryMissing, or the signal's reason */
  ask(questions: readonly Question[], signal: AbortSignal): Promise<Answers>
  /** Lets the process answer what it was asked, then ends it. Resolves when it has ended. */
  retire(): Promise<void>
  /** Ends the process now. All open questions reject with the reason. */
  fail(reason: unknown): void
  /** Resolves when the process has ended; never rejects. */
  ended: Promise<void>
}

interface ObjectReaderOptions {
  /** The process starts when one of these slots is free, and gives the slot back when it has ended. */
  slots: Slots
  /** Milliseconds without a question after which the process ends. */
  idle: number
  /** Called once or more when the reader takes no more questions. */
  onRetired: () => void
}

/** Questions that were asked together, and the answers that have come so far. */
interface Call {
  questions: readonly Question[]
  answers: Answers
  /** The caller has stopped waiting; the rest of git's answers is read and dropped. */
  isAbandoned: boolean
  resolve(answers: Answers): void
  reject(reason: unknown): void
}

/** Starts a reader of the repository at `dir`. */
export function startObjectReader(
  dir: string,
  { slots, idle, onRetired }: ObjectReaderOptions,
): ObjectReader {
  const calls: Call[] = []
  const unwanted = new AbortController()
  let unsent: string[] = []
  let child: ChildProcessWithoutNullStreams | undefined
  let isRetired = false
  let failure: { reason: unknown } | undefined
  const idleTimer = setTimeout(() => void retire(), idle).unref()

  const takeOutput = splitAnswers({
    wants() {
      const call = calls[0]
      const question = call?.questions[call.answers.length]
      if (question?.command !== 'contents') return undefined
      return call?.isAbandoned ? 0 : MAX_READ_BYTES
    },
    found(answer) {
      const call = calls[0]
      const question = call?.questions[call.answers.length]
      if (call === undefined || question === undefined || !isAnswerTo(question, answer)) {
        throw new GitUnavailable(`git ${ARGS[0]} gave an answer without a question`)
      }
      call.answers.push(typeof answer === 'string' || call.isAbandoned ? undefined : answer)
      if (call.answers.length < call.questions.length) return
      calls.shift()
      call.resolve(call.answers)
      stopIfDone()
    },
  })

  function stopIfDone(): void {
    if (calls.length > 0) return
    if (isRetired) stop()
    else idleTimer.refresh()
  }

  function stop(): void {
    unwanted.abort()
    // The process only reads, so killing it leaves nothing behind.
    if (child?.pid !== undefined && child.exitCode === null) signalGroup(child.pid, 'SIGKILL')
  }

  function takeNoMore(): void {
    clearTimeout(idleTimer)
    isRetired = true
    onRetired()
  }

  function fail(reason: unknown): void {
    takeNoMore()
    failure ??= { reason }
    for (const call of calls.splice(0)) call.reject(failure.reason)
    stop()
  }

  async function retire(): Promise<void> {
    takeNoMore()
    stopIfDone()
    await ended
  }

  async function run(): Promise<void> {
    const release = await slots.take(unwanted.signal)
    try {
      await new Promise<void>((resolve, reject) => {
        const started = spawn('git', ARGS, {
          cwd: '/',
          env: { ...environment, GIT_DIR: dir },
          stdio: 'pipe',
          // A group of its own: Ctrl-C ends the server, which lets its readers answer first.
          detached: true,
        })
        child = started
        const stderr = collectStderr(started)
        // The reader must not keep our process alive. A caller that waits for an answer has a timer that does.
        started.unref()
        for (const stream of started.stdio) if (stream instanceof Socket) stream.unref()
        started.stdout.on('data', (chunk: Buffer) => {
          if (failure !== undefined) return
          try {
            takeOutput(chunk)
          } catch (error) {
            fail(error)
          }
        })
        // The process has ended; its exit code tells why.
        started.stdin.on('error', () => undefined)
        started.on('error', (error) => reject(cannotStart(error)))
        started.on('close', (code, killedBy) => {
          if (isRetired && calls.length === 0) resolve()
          else reject(endError(dir, code, killedBy, stderr()))
        })
        started.stdin.write(unsent.join(''))
        unsent = []
      })
    } finally {
      release()
    }
  }

  function ask(questions: readonly Question[], signal: AbortSignal): Promise<Answers> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted()
      if (failure !== undefined) return reject(failure.reason)
      const onAbort = () => {
        call.isAbandoned = true
        reject(signal.reason)
      }
      const call: Call = {
        questions,
        answers: [],
        isAbandoned: false,
        resolve(answers) {
          signal.removeEventListener('abort', onAbort)
          resolve(answers)
        },
        reject(reason) {
          signal.removeEventListener('abort', onAbort)
          reject(reason)
        },
      }
      signal.addEventListener('abort', onAbort, { once: true })
      calls.push(call)
      const lines = `${questions.map(({ command, name }) => `${command} ${name}\n`).join('')}flush\n`
      if (child === undefined) unsent.push(lines)
      else child.stdin.write(lines)
    })
  }

  const ended = run().catch(fail).finally(takeNoMore)
  return { ask, retire, fail, ended }
}

function isAnswerTo({ name }: Question, answer: ObjectAnswer | string): boolean {
  if (typeof answer === 'string') return answer === `${name} missing`
  return answer.sha === name || name.endsWith('^{commit}')
}

function endError(dir: string, code: number | null, killedBy: string | null, stderr: string): unknown {
  try {
    throwIfUnusable(stderr, dir)
  } catch (error) {
    return error
  }
  if (code === null) return new GitUnavailable(`git ${ARGS[0]} was ended by ${killedBy}`)
  return new GitFailed(ARGS, code, stderr)
}
