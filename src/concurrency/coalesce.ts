/**
 * Coalescing: callers that ask for the same thing at the same time share one run of the work. For each key there is one
 * run, which further callers join until it ends. A caller whose signal is aborted gets the signal's reason. When all
 * callers of a run have left, the signal of the work is aborted. Nothing is kept after a run: a cache is the work's own.
 * `fetch` of lru-cache coalesces, too, but ends the work when its first caller leaves.
 */
import { createKeyedMutex } from './keyed-mutex.ts'

type Work<T> = (unwanted: AbortSignal) => Promise<T>

interface Run<T> {
  answer: Promise<T>
  callers: number
  unwanted: AbortController
}

/** Makes a function that joins the run for a key, or starts it. `gone`: aborted when this caller waits no longer. */
export function coalesce<T>() {
  /** Those that further callers may join. */
  const runs = new Map<string, Run<T>>()

  function close(key: string, run: Run<T>): void {
    if (runs.get(key) === run) runs.delete(key)
  }

  function start(key: string, work: Work<T>): Run<T> {
    const unwanted = new AbortController()
    const run = { answer: work(unwanted.signal), callers: 0, unwanted }
    runs.set(key, run)
    const end = () => close(key, run)
    run.answer.then(end, end)
    return run
  }

  return async (key: string, work: Work<T>, gone?: AbortSignal): Promise<T> => {
    gone?.throwIfAborted()
    const run = runs.get(key) ?? start(key, work)
    run.callers += 1
    return await rejectOnAbort(run.answer, gone, () => {
      run.callers -= 1
      if (run.callers > 0) return
      close(key, run)
      run.unwanted.abort(gone?.reason)
    })
  }
}

/** Makes a function whose callers share the next run of `work`: one that begins after their call. One runs at a time. */
export function nextRun<T>(work: () => Promise<T>): () => Promise<T> {
  const runs = coalesce<T>()
  const inTurn = createKeyedMutex()
  let next = 0
  const run = () => {
    next += 1
    return work()
  }
  return () => runs(`${next}`, () => inTurn('', run))
}

/**
 * What a promise gives, to a caller who may be gone before: then `left` is called, and the error is the signal's reason.
 * The work behind the promise goes on unless `left` ends it.
 */
export function rejectOnAbort<T>(
  promise: Promise<T>,
  gone: AbortSignal | undefined,
  left: () => void,
): Promise<T> {
  if (gone === undefined) return promise
  return new Promise((resolve, reject) => {
    const leave = () => {
      left()
      reject(gone.reason)
    }
    gone.addEventListener('abort', leave, { once: true })
    promise.then(resolve, reject).finally(() => gone.removeEventListener('abort', leave))
  })
}
