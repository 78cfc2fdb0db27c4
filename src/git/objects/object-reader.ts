/**
 * Reads the objects of one repository through one git process that stays (`git cat-file --batch-command`).
 * Starting a process for each question would hold the event loop.
 */
import type { Semaphore } from '../../concurrency/semaphore.ts'
import { failureOf, type GitProcess, killNow, startProcess } from '../process/child-process.ts'
import { gitEnvironment } from '../process/environment.ts'
import { GitUnavailable } from '../process/errors.ts'
import { type ObjectAnswer, splitAnswers } from './batch-answers.ts'

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
type Answers = (ObjectAnswer | undefined)[]

export type ObjectReader = ReturnType<typeof startObjectReader>

interface ObjectReaderOptions {
  /** The process starts when one of these slots is free, and gives the slot back when it has ended. */
  slots: Semaphore
  /** Milliseconds without a question after which the process ends. */
  idle: number
  /** Called once or more when the reader takes no more questions. */
  onRetired: () => void
}

/** Questions that were asked together, and the answers that have come so far. */
interface Call {
  questions: readonly Question[]
  answers: Answers
  resolve(answers: Answers): void
  reject(reason: unknown): void
}

/** Starts a reader of the repository at `dir`. */
export function startObjectReader(dir: string, { slots, idle, onRetired }: ObjectReaderOptions) {
  const calls: Call[] = []
  const unwanted = new AbortController()
  let unsent: string[] = []
  let child: GitProcess | undefined
  let isRetired = false
  let failure: { reason: unknown } | undefined
  const idleTimer = setTimeout(() => void retire(), idle).unref()

  const takeOutput = splitAnswers({
    wants() {
      const [call] = calls
      return call?.questions[call.answers.length]?.command === 'contents' ? MAX_READ_BYTES : undefined
    },
    found(answer) {
      const [call] = calls
      const question = call?.questions[call.answers.length]
      if (call === undefined || question === undefined || !isAnswerTo(question, answer)) {
        throw new GitUnavailable(`git ${ARGS[0]} gave an answer without a question`)
      }
      call.answers.push(typeof answer === 'string' ? undefined : answer)
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
    if (child !== undefined) killNow(child)
  }

  function takeNoMore(): void {
    clearTimeout(idleTimer)
    isRetired = true
    onRetired()
  }

  /** Ends the process now. All open questions reject with the reason. */
  function fail(reason: unknown): void {
    takeNoMore()
    failure ??= { reason }
    for (const call of calls.splice(0)) call.reject(failure.reason)
    stop()
  }

  /** Ends the process after its pending answers. Resolves when it has ended. */
  async function retire(): Promise<void> {
    takeNoMore()
    stopIfDone()
    await ended
  }

  async function run(): Promise<void> {
    const release = await slots.take(dir, unwanted.signal)
    try {
      const started = await startProcess('git', ARGS, { ...environment, GIT_DIR: dir })
      child = started
      // The reader must not keep our process alive. A caller that waits for an answer has a timer that does.
      started.unref()
      if (unwanted.signal.aborted) killNow(started)
      started.stdout.on('data', (chunk: Buffer) => {
        if (failure !== undefined) return
        try {
          takeOutput(chunk)
        } catch (error) {
          fail(error)
        }
      })
      started.stdin.write(unsent.join(''))
      unsent = []
      const { code } = await started.ended
      if (!isRetired || calls.length > 0) throw await failureOf(ARGS, { code, stderr: started.stderr() }, dir)
    } finally {
      release()
    }
  }

  /** Asks several questions together. @throws GitUnavailable, GitFailed, RepositoryMissing */
  function ask(questions: readonly Question[]): Promise<Answers> {
    return new Promise((resolve, reject) => {
      if (failure !== undefined) return reject(failure.reason)
      calls.push({ questions, answers: [], resolve, reject })
      const lines = `${questions.map(({ command, name }) => `${command} ${name}\n`).join('')}flush\n`
      if (child === undefined) unsent.push(lines)
      else child.stdin.write(lines)
    })
  }

  /** Resolves when the process has ended; never rejects. */
  const ended = run().catch(fail).finally(takeNoMore)
  return { ask, retire, fail, ended }
}

function isAnswerTo({ name }: Question, answer: ObjectAnswer | string): boolean {
  if (typeof answer === 'string') return answer === `${name} missing`
  return answer.sha === name || name.endsWith('^{commit}')
}
