/**
 * Reads the objects of one repository through one git process that stays (`git cat-file --batch-command`). Starting a
 * process for each request would block the event loop.
 */
import type { Semaphore } from '../../concurrency/semaphore.ts'
import { failureOf, type GitProcess, killNow, startProcess } from '../process/child-process.ts'
import { gitEnvironment } from '../process/environment.ts'
import { GitUnavailable } from '../process/errors.ts'
import { type ObjectAnswer, splitAnswers } from './batch-answers.ts'

const ARGS = ['cat-file', '--batch-command', '--buffer'] as const
/**
 * Maximum size of an object to read here, in bytes. A larger one needs its own process: other requests would wait
 * behind it.
 */
export const MAX_READ_BYTES = 1024 * 1024

const environment = gitEnvironment([['core.deltaBaseCacheLimit', '8m']])

export interface ObjectRequest {
  command: 'info' | 'contents'
  /**
   * A whole object id, which `^{commit}` may follow. Names of refs don't work: git takes a missing
   * `refs/heads/a` for `refs/heads/refs/heads/a`, and a name that ends in `-g` and digits for a commit's id.
   */
  name: string
}

/** Answers in the order of the requests; undefined for a missing object. */
type Answers = (ObjectAnswer | undefined)[]

export type ObjectReader = ReturnType<typeof startObjectReader>

interface ObjectReaderOptions {
  /** The process starts when one of these slots is free, and gives the slot back when it has ended. */
  slots: Semaphore
  /** Milliseconds without a request after which the process ends. */
  idle: number
  /** Called at least once when the reader accepts no more requests. */
  onRetired: () => void
}

/** A batch of requests, and the answers so far. */
interface Call {
  requests: readonly ObjectRequest[]
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
      return call?.requests[call.answers.length]?.command === 'contents' ? MAX_READ_BYTES : undefined
    },
    found(answer) {
      const [call] = calls
      const request = call?.requests[call.answers.length]
      if (call === undefined || request === undefined || !isAnswerTo(request, answer)) {
        throw new GitUnavailable(`git ${ARGS[0]} gave an unexpected answer`)
      }
      call.answers.push(typeof answer === 'string' ? undefined : answer)
      if (call.answers.length < call.requests.length) return
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

  /** Ends the process now. All pending requests reject with the reason. */
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

  /** Sends a batch of requests. @throws GitUnavailable, GitFailed, RepositoryMissing */
  function ask(requests: readonly ObjectRequest[]): Promise<Answers> {
    return new Promise((resolve, reject) => {
      if (failure !== undefined) return reject(failure.reason)
      calls.push({ requests, answers: [], resolve, reject })
      const lines = `${requests.map(({ command, name }) => `${command} ${name}\n`).join('')}flush\n`
      if (child === undefined) unsent.push(lines)
      else child.stdin.write(lines)
    })
  }

  /** Resolves when the process has ended; never rejects. */
  const ended = run().catch(fail).finally(takeNoMore)
  return { ask, retire, fail, ended }
}

function isAnswerTo({ name }: ObjectRequest, answer: ObjectAnswer | string): boolean {
  if (typeof answer === 'string') return answer === `${name} missing`
  return answer.sha === name || name.endsWith('^{commit}')
}
