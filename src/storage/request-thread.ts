/** A program of ours in a thread of its own, which answers questions in the order in which they come. */
import { parentPort, Worker, type WorkerOptions } from 'node:worker_threads'
import { program } from './project-files.ts'
import { resultCodeOf, sqliteError } from './sqlite/errors.ts'

export interface RequestThread<Question, Answer> {
  /** False from the moment on when it has ended, or was told to. */
  isRunning(): boolean
  /** Tells it something that has no answer. */
  tell(question: Question): void
  /** @throws what the program throws, with SQLite's result code; an error when the thread ends before it has answered */
  ask(question: Question): Promise<Answer>
  /** Ends it, and with it the connections that it has open. Resolves when it has ended. */
  end(): Promise<void>
}

interface Message<Question> {
  /** What the answer is to have; undefined when there is none. */
  id: number | undefined
  question: Question
}

type Reply<Answer> =
  | { id: number; answer: Answer }
  // An error that is sent to another thread loses what it has besides its text.
  | { id: number; message: string; errcode: number | undefined }

interface ReplayClient<Answer> {
  resolve: (answer: Answer) => void
  reject: (error: Error) => void
}

/** Starts one. `path`: of its program, as in `program`. It keeps the process alive only while it owes an answer. */
export function startRequestThread<Question, Answer>(
  path: string,
  options: Pick<WorkerOptions, 'resourceLimits' | 'workerData'> = {},
): RequestThread<Question, Answer> {
  // It needs none of this process's Node options.
  const worker = new Worker(program(path), { ...options, execArgv: [] })
  const askers = new Map<number, ReplayClient<Answer>>()
  let lastId = 0
  const ended = `the thread ${path} has ended`
  let reason = ended
  let isRunning = true

  function take(id: number): ReplayClient<Answer> | undefined {
    const asker = askers.get(id)
    askers.delete(id)
    if (askers.size === 0) worker.unref()
    return asker
  }

  worker.unref()
  worker.on('message', (reply: Reply<Answer>) => {
    const asker = take(reply.id)
    if ('answer' in reply) asker?.resolve(reply.answer)
    else asker?.reject(sqliteError(reply.message, reply.errcode))
  })
  worker.on('error', (error) => {
    reason = `${ended}: ${error.message}`
  })
  worker.on('exit', () => {
    isRunning = false
    for (const id of [...askers.keys()]) take(id)?.reject(new Error(reason))
  })

  const post = (message: Message<Question>) => worker.postMessage(message)
  return {
    isRunning: () => isRunning,
    tell: (question) => post({ id: undefined, question }),
    ask(question) {
      if (!isRunning) return Promise.reject(new Error(reason))
      return new Promise((resolve, reject) => {
        lastId += 1
        askers.set(lastId, { resolve, reject })
        worker.ref()
        post({ id: lastId, question })
      })
    },
    async end() {
      isRunning = false
      await worker.terminate()
    },
  }
}

/** In the thread: answers each question with what `answer` returns or throws. */
export function serveRequests<Question, Answer>(answer: (question: Question) => Answer): void {
  parentPort?.on('message', ({ id, question }: Message<Question>) => {
    let answered: Reply<Answer> | undefined
    try {
      const given = answer(question)
      if (id !== undefined) answered = { id, answer: given }
    } catch (error) {
      const [message, cause] = error instanceof Error ? [error.message, error.cause] : [String(error)]
      if (id !== undefined) answered = { id, message, errcode: resultCodeOf(error) ?? resultCodeOf(cause) }
    }
    if (answered !== undefined)
      parentPort?.postMessage(answered, movable('answer' in answered && answered.answer))
  })
}

/**
 * The memory of an answer that is moved to the other thread instead of copied. An answer of bytes must own its memory, as
 * SQLite's BLOBs and hashes of scrypt do.
 */
const movable = (answer: unknown): ArrayBuffer[] =>
  answer instanceof Uint8Array && answer.buffer instanceof ArrayBuffer ? [answer.buffer] : []
