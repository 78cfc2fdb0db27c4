/**
 * Runs tasks in a thread of their own, one at a time: a task that somebody sent may be made to take long. A task that
 * does is given up together with its thread, and the next one gets another. The thread is started at the first task.
 */
import { Worker } from 'node:worker_threads'
import type { LimitName } from '../errors/limits.ts'
import { program } from '../storage/project-files.ts'
import { createSemaphore } from './semaphore.ts'

export interface TaskThread<Task, Answer> {
  /**
   * The answer of the thread; undefined: the task took too long. `client`: whose work it is.
   * @throws SlotsFull when too many wait
   */
  run(client: string, task: Task): Promise<Answer | undefined>
}

/**
 * Makes a thread. `path`: of its program, as in `program`: it posts one message when it is ready, and then one answer to
 * each task. `name`: under which it is counted that too many wait.
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
  /** The thread, when it has loaded its code. */
  let thread: Promise<Worker> | undefined

  /** Starts it when there is none. There is one at a time: only the end of it makes room for another. */
  function running(): Promise<Worker> {
    if (thread !== undefined) return thread
    const worker = new Worker(program(path), { execArgv: [] })
    thread = new Promise((resolve, reject) => {
      // Its first message says that it is ready.
      worker.once('message', () => resolve(worker))
      worker.once('exit', () => {
        thread = undefined
        reject(new Error(`the thread ${path} ended before it was ready`))
      })
    })
    // Who waits for an answer hears of the end, too.
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
      // The next task gets another thread once this one has ended.
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
