/** A worker thread that answers requests in order. */
import { parentPort, Worker, type WorkerOptions } from 'node:worker_threads'
import { program } from './project-files.ts'
import { resultCodeOf, sqliteError } from './sqlite/errors.ts'

export interface RequestThread<Request, Answer> {
  /** False once the thread has ended or is being ended. */
  isRunning(): boolean
  /** Sends a request without an answer. */
  tell(request: Request): void
  /** @throws the program's error, with SQLite's result code; an error when the thread ends before it has answered */
  ask(request: Request): Promise<Answer>
  /** Ends the thread and its open connections. Resolves when it has ended. */
  end(): Promise<void>
}

interface Message<Request> {
  /** Id of the answer; undefined for a request without one. */
  id: number | undefined
  request: Request
}

type Reply<Answer> =
  | { id: number; answer: Answer }
  // An error that is sent between threads keeps only its message.
  | { id: number; message: string; errcode: number | undefined }

interface Pending<Answer> {
  resolve: (answer: Answer) => void
  reject: (error: Error) => void
}

/** Starts a thread. `path` is its program, as in `program`. It keeps the process alive only while a request is pending. */
export function startRequestThread<Request, Answer>(
  path: string,
  options: Pick<WorkerOptions, 'resourceLimits' | 'workerData'> = {},
): RequestThread<Request, Answer> {
  const worker = new Worker(program(path), { ...options, execArgv: [] })
  const pending = new Map<number, Pending<Answer>>()
  let lastId = 0
  const ended = `the thread ${path} has ended`
  let reason = ended
  let isRunning = true

  function take(id: number): Pending<Answer> | undefined {
    const entry = pending.get(id)
    pending.delete(id)
    if (pending.size === 0) worker.unref()
    return entry
  }

  worker.unref()
  worker.on('message', (reply: Reply<Answer>) => {
    const entry = take(reply.id)
    if ('answer' in reply) entry?.resolve(reply.answer)
    else entry?.reject(sqliteError(reply.message, reply.errcode))
  })
  worker.on('error', (error) => {
    reason = `${ended}: ${error.message}`
  })
  worker.on('exit', () => {
    isRunning = false
    for (const id of [...pending.keys()]) take(id)?.reject(new Error(reason))
  })

  const post = (message: Message<Request>) => worker.postMessage(message)
  return {
    isRunning: () => isRunning,
    tell: (request) => post({ id: undefined, request }),
    ask(request) {
      if (!isRunning) return Promise.reject(new Error(reason))
      return new Promise((resolve, reject) => {
        lastId += 1
        pending.set(lastId, { resolve, reject })
        worker.ref()
        post({ id: lastId, request })
      })
    },
    async end() {
      isRunning = false
      await worker.terminate()
    },
  }
}

/** Runs in the thread: answers each request with the result or the error of `answer`. */
export function serveRequests<Request, Answer>(answer: (request: Request) => Answer): void {
  parentPort?.on('message', ({ id, request }: Message<Request>) => {
    try {
      const result = answer(request)
      if (id !== undefined) send({ id, answer: result })
    } catch (error) {
      if (id !== undefined) send(failed(id, error))
    }
  })
}

/** In the thread: the same for answers that take several turns. Begins a request after the one before has ended. */
export function serveInOrder<Request, Answer>(answer: (request: Request) => Promise<Answer>): void {
  let last: Promise<unknown> = Promise.resolve()
  parentPort?.on('message', ({ id, request }: Message<Request>) => {
    const begun = last.then(() => answer(request))
    last = begun.then(
      (result) => id !== undefined && send({ id, answer: result }),
      (error: unknown) => id !== undefined && send(failed(id, error)),
    )
  })
}

function failed(id: number, error: unknown): Reply<never> {
  const [message, cause] = error instanceof Error ? [error.message, error.cause] : [String(error)]
  return { id, message, errcode: resultCodeOf(error) ?? resultCodeOf(cause) }
}

const send = (reply: Reply<unknown>): void =>
  parentPort?.postMessage(reply, movable('answer' in reply && reply.answer))

/**
 * Returns the memory of an answer that is transferred instead of copied. The bytes must own their memory, as SQLite's BLOBs
 * and hashes of scrypt do.
 */
const movable = (answer: unknown): ArrayBuffer[] =>
  answer instanceof Uint8Array && answer.buffer instanceof ArrayBuffer ? [answer.buffer] : []
