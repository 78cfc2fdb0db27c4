/**
 * Runs tasks in a thread, one at a time. Clients can send tasks that take long: such a task is aborted by terminating the
 * thread, and the next task starts a new one. The thread starts at the first task.
 */
import { Worker } from 'node:worker_threads'
import type { LimitName } from '../errors/limits.ts'
import { program } from '../storage/project-files.ts'
import { createSemaphore } from './semaphore.ts'

export interface TaskThread<Task, Answer> {
  /**
   * Returns the thread's answer; undefined on timeout. `client` is the key of the queue.
   * @throws SlotsFull when the queue is full
   */
  run(client: string, task: Task): Promise<Answer | undefined>
}

/**
 * Creates a thread. `path` is its program, as in `program`: it posts one message when it is ready, then one answer per
 * task. `name` is the limit that counts refusals.
 */
export function taskThread<Task, Answer>({
  path,
  name,
  deadlineMs,
}: {
  path: string
  name: LimitName
  deadlineMs: number
}): TaskThread<Task, Answer> {
  const slots = createSemaphore({ name, size: 1, waiting: 32 })
  /** The thread, once it has loaded its code. */
  let thread: Promise<Worker> | undefined

  /** Returns the running thread, or starts one. A new thread starts only after the old one has ended. */
  function running(): Promise<Worker> {
    if (thread !== undefined) return thread
    const worker = new Worker(program(path), { execArgv: [] })
    thread = new Promise((resolve, reject) => {
      worker.once('message', () => resolve(worker))
      worker.once('exit', () => {
        thread = undefined
        reject(new Error(`the thread ${path} ended before it was ready`))
      })
    })
    // The exit handler rejects waiting callers.
    worker.on('error', () => {})
    return thread
  }

  async function answerTo(task: Task): Promise<Answer | undefined> {
    const worker = await running()
    return new Promise((resolve) => {
      const end = (answer?: Answer) => {
        clearTimeout(deadline)
        worker.off('message', end)
        worker.off('exit', ended)
        worker.unref()
        resolve(answer)
      }
      const ended = () => end()
      // The next task starts a new thread once this one has ended.
      const deadline = setTimeout(() => void worker.terminate(), deadlineMs)
      worker.on('message', end)
      worker.on('exit', ended)
      worker.ref()
      worker.postMessage(task)
    })
  }

  return {
    async run(client, task) {
      const release = await slots.take(client)
      try {
        return await answerTo(task)
      } finally {
        release()
      }
    },
  }
}
