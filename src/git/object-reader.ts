/**
 * Reads objects through git processes that stay (`git cat-file --batch-command`), as starting one for each
 * question holds the event loop. One for a repository, a few in all; they end when nobody asks.
 *
 * Only whole object ids are asked for. A ref can't be: git takes a missing `refs/heads/a` for
 * `refs/heads/refs/heads/a`, and a name that ends in `-g` and digits for a commit's id.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { Socket } from 'node:net'
import { availableParallelism } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { isMissing } from '../disk.ts'
import { createSlots } from '../turns.ts'
import { type ObjectAnswer, type ObjectHeader, splitAnswers } from './batch-answers.ts'
import { GitFailed, GitOutputTooLarge, GitUnavailable, RepositoryMissing } from './errors.ts'
import { checkedId } from './names.ts'
import { cannotStart, collectStderr, gitEnvironment, signalGroup, throwIfHopeless } from './run.ts'

const ARGS = ['cat-file', '--batch-command', '--buffer'] as const
/** Objects that are larger are left to a process of their own: the others would wait behind them. */
export const MAX_READ_BYTES = 1024 * 1024
/** No more than this is asked for at once: it is held until it is read, and others wait behind it. */
const MAX_QUESTIONS = 1000
const MAX_ANSWER_BYTES = 4 * 1024 * 1024

const environment = gitEnvironment([['core.deltaBaseCacheLimit', '8m']])

export interface ReaderLimits {
  /** Processes at the same time. */
  processes?: number
  /** Milliseconds that a question may take, the wait for a process included. */
  deadline?: number
  /** Milliseconds after which a process ends that nobody asks. */
  idle?: number
  /** Milliseconds after which a process makes room for a new one: it holds on to packs that are deleted. */
  age?: number
}

export interface ObjectReaders {
  /**
   * What the repository has under these object ids, in their order; undefined for what it has not. With
   * `peel` the commit that a tag leads to, and undefined for what is not and leads to no commit.
   *
   * @throws InvalidGitArgument, RepositoryMissing, GitUnavailable, GitFailed, or the signal's reason
   */
  headers(
    dir: string,
    ids: readonly string[],
    options?: { peel?: boolean; signal?: AbortSignal },
  ): Promise<(ObjectHeader | undefined)[]>
  /**
   * Gives `found` the content of each of these objects, which are no larger than a megabyte, in order. What
   * has gone since its header was read is left out.
   *
   * @throws GitOutputTooLarge, and what `headers` throws
   */
  contents(
    dir: string,
    objects: readonly ObjectHeader[],
    found: (header: ObjectHeader, content: Buffer) => void,
    options?: { signal?: AbortSignal },
  ): Promise<void>
  /** Ends the processes of this repository, or of all below this directory, once they have answered. */
  close(path: string): Promise<void>
}

interface Question {
  command: 'info' | 'contents'
  name: string
}

/** Questions that were asked together, and what is known of their answers. */
interface Call {
  questions: readonly Question[]
  answers: (ObjectAnswer | undefined)[]
  /** Nobody waits any more; what git still says to it is read and dropped. */
  isGone: boolean
  resolve(answers: (ObjectAnswer | undefined)[]): void
  reject(reason: unknown): void
}

interface Reader {
  dir: string
  /** Of the repository's directory, when the reader was made for it. */
  identity: string
  startedAt: number
  ask(questions: readonly Question[], signal: AbortSignal): Promise<(ObjectAnswer | undefined)[]>
  /** Lets it answer what it was asked, and then end; resolves when it has ended. */
  retire(): Promise<void>
  /** Ends it at once. */
  fail(reason: unknown): void
}

/** Makes a set of readers with limits of its own; all of ours share `objectReaders`. */
export function createObjectReaders({
  processes = Math.max(8, 4 * availableParallelism()),
  deadline = 60_000,
  idle = 30_000,
  age = 5 * 60_000,
}: ReaderLimits = {}): ObjectReaders {
  const slots = createSlots(processes)
  /** Those that take questions, by directory, the one that was asked longest ago first. */
  const current = new Map<string, Reader>()
  /** Those whose process has not ended. */
  const all = new Set<Reader>()

  function startReader(dir: string, identity: string): Reader {
    const calls: Call[] = []
    const unwanted = new AbortController()
    let unsent: string[] = []
    let child: ChildProcessWithoutNullStreams | undefined
    let isRetired = false
    let failure: { reason: unknown } | undefined
    const idleTimer = setTimeout(() => void retire(), idle).unref()

    const take = splitAnswers({
      wants() {
        const call = calls[0]
        const question = call?.questions[call.answers.length]
        if (question?.command !== 'contents') return undefined
        return call?.isGone ? 0 : MAX_READ_BYTES
      },
      found(answer) {
        const call = calls[0]
        const question = call?.questions[call.answers.length]
        if (call === undefined || question === undefined || !answers(question, answer)) {
          throw new GitUnavailable(`git ${ARGS[0]} answers what it was not asked`)
        }
        call.answers.push(typeof answer === 'string' || call.isGone ? undefined : answer)
        if (call.answers.length < call.questions.length) return
        calls.shift()
        call.resolve(call.answers)
        endIfDone()
      },
    })

    function endIfDone(): void {
      if (calls.length > 0) return
      if (isRetired) stop()
      else idleTimer.refresh()
    }

    function stop(): void {
      unwanted.abort()
      // It only reads, so nothing is left behind.
      if (child?.pid !== undefined && child.exitCode === null) signalGroup(child.pid, 'SIGKILL')
    }

    function withdraw(): void {
      clearTimeout(idleTimer)
      isRetired = true
      if (current.get(dir) === reader) current.delete(dir)
    }

    function fail(reason: unknown): void {
      withdraw()
      failure ??= { reason }
      for (const call of calls.splice(0)) call.reject(failure.reason)
      stop()
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
          // Who waits for an answer has a timer; nobody else keeps our process alive.
          started.unref()
          for (const stream of started.stdio) if (stream instanceof Socket) stream.unref()
          started.stdout.on('data', (chunk: Buffer) => {
            if (failure !== undefined) return
            try {
              take(chunk)
            } catch (error) {
              fail(error)
            }
          })
          // It has ended, and its exit code tells why.
          started.stdin.on('error', () => undefined)
          started.on('error', (error) => reject(cannotStart(error)))
          started.on('close', (code, killedBy) => {
            if (isRetired && calls.length === 0) resolve()
            else reject(endOf(dir, code, killedBy, stderr()))
          })
          started.stdin.write(unsent.join(''))
          unsent = []
        })
      } finally {
        release()
      }
    }

    const reader: Reader = {
      dir,
      identity,
      startedAt: performance.now(),
      ask(questions, signal) {
        return new Promise((resolve, reject) => {
          signal.throwIfAborted()
          if (failure !== undefined) return reject(failure.reason)
          const gone = () => {
            call.isGone = true
            reject(signal.reason)
          }
          const call: Call = {
            questions,
            answers: [],
            isGone: false,
            resolve(answers) {
              signal.removeEventListener('abort', gone)
              resolve(answers)
            },
            reject(reason) {
              signal.removeEventListener('abort', gone)
              reject(reason)
            },
          }
          signal.addEventListener('abort', gone, { once: true })
          calls.push(call)
          const lines = `${questions.map(({ command, name }) => `${command} ${name}\n`).join('')}flush\n`
          if (child === undefined) unsent.push(lines)
          else child.stdin.write(lines)
        })
      },
      async retire() {
        withdraw()
        endIfDone()
        await ended
      },
      fail,
    }
    const retire = reader.retire
    all.add(reader)
    const ended = run()
      .catch(fail)
      .finally(() => {
        withdraw()
        all.delete(reader)
      })
    return reader
  }

  function readerOf(dir: string, identity: string): Reader {
    const known = current.get(dir)
    const fits = known?.identity === identity && performance.now() - known.startedAt < age
    const reader = known !== undefined && fits ? known : startReader(dir, identity)
    if (known !== undefined && !fits) void known.retire()
    current.delete(dir)
    current.set(dir, reader)
    if (current.size > processes) {
      for (const longestAgo of current.values()) {
        void longestAgo.retire()
        break
      }
    }
    return reader
  }

  async function ask(
    dir: string,
    questions: readonly Question[],
    signal: AbortSignal | undefined,
  ): Promise<(ObjectAnswer | undefined)[]> {
    signal?.throwIfAborted()
    const reader = readerOf(dir, await identityOf(dir))
    const late = new AbortController()
    const timer = setTimeout(() => {
      const reason = new GitUnavailable(`git ${ARGS[0]} took more than ${deadline} ms`)
      late.abort(reason)
      reader.fail(reason)
    }, deadline)
    try {
      return await reader.ask(questions, signal ? AbortSignal.any([signal, late.signal]) : late.signal)
    } finally {
      clearTimeout(timer)
    }
  }

  return {
    async headers(dir, ids, { peel = false, signal } = {}) {
      const names = ids.map((id) => `${checkedId(id)}${peel ? '^{commit}' : ''}`)
      const found: (ObjectHeader | undefined)[] = []
      for (let i = 0; i < names.length; i += MAX_QUESTIONS) {
        const questions = names
          .slice(i, i + MAX_QUESTIONS)
          .map((name): Question => ({ command: 'info', name }))
        for (const answer of await ask(dir, questions, signal)) {
          found.push(answer && { sha: answer.sha, type: answer.type, size: answer.size })
        }
      }
      return found
    },

    async contents(dir, objects, found, { signal } = {}) {
      const large = objects.find(({ size }) => size > MAX_READ_BYTES)
      if (large !== undefined) {
        throw new GitOutputTooLarge(`the object ${large.sha} has more than ${MAX_READ_BYTES} bytes`)
      }
      for (const some of portions(objects)) {
        const questions = some.map(({ sha }): Question => ({ command: 'contents', name: checkedId(sha) }))
        for (const answer of await ask(dir, questions, signal)) {
          if (answer !== undefined) found(answer, answer.content)
        }
      }
    },

    async close(path) {
      const concerned = [...all].filter(({ dir }) => dir === path || dir.startsWith(`${path}/`))
      // A timer also keeps our process alive until they have ended, which they do not by themselves.
      const patience = new AbortController()
      const late = delay(deadline, undefined, { signal: patience.signal }).catch(() => undefined)
      await Promise.race([Promise.all(concerned.map((reader) => reader.retire())), late])
      patience.abort()
    },
  }
}

/** The readers of this process. */
export const objectReaders = createObjectReaders()

/** Another repository may have taken the place of the one that a reader has open. */
async function identityOf(dir: string): Promise<string> {
  try {
    const { dev, ino, birthtimeNs } = await stat(dir, { bigint: true })
    return `${dev} ${ino} ${birthtimeNs}`
  } catch (error) {
    if (isMissing(error)) throw new RepositoryMissing(`no repository at ${dir}`)
    throw new GitUnavailable(`${dir} can't be read`, { cause: error })
  }
}

/** Whether that can be the answer to the question. */
function answers({ name }: Question, answer: ObjectAnswer | string): boolean {
  if (typeof answer === 'string') return answer === `${name} missing`
  return answer.sha === name || name.endsWith('^{commit}')
}

function endOf(dir: string, code: number | null, killedBy: string | null, stderr: string): unknown {
  try {
    throwIfHopeless(stderr, dir)
  } catch (error) {
    return error
  }
  if (code === null) return new GitUnavailable(`git ${ARGS[0]} was ended by ${killedBy}`)
  return new GitFailed(ARGS, code, stderr)
}

/** Of a size that may be asked for at once. */
function* portions(objects: readonly ObjectHeader[]): Generator<ObjectHeader[]> {
  let portion: ObjectHeader[] = []
  let bytes = 0
  for (const object of objects) {
    if (portion.length === MAX_QUESTIONS || (portion.length > 0 && bytes + object.size > MAX_ANSWER_BYTES)) {
      yield portion
      portion = []
      bytes = 0
    }
    portion.push(object)
    bytes += object.size
  }
  if (portion.length > 0) yield portion
}
