/**
 * Coalescing: concurrent callers with the same key share one run of the work, which further callers join until it ends. A
 * caller whose signal is aborted rejects with the signal's reason. When the last caller has left, the work's signal is
 * aborted. No result is kept after a run. lru-cache's `fetch` also coalesces, but it aborts the work when its first caller
 * leaves.
 */
import { createKeyedMutex } from './keyed-mutex.ts'

type Work<T> = (unwanted: AbortSignal) => Promise<T>

interface Run<T> {
  answer: Promise<T>
  callers: number
  unwanted: AbortController
}

/** Creates a function that joins the run of a key, or starts one. `gone` is the caller's abort signal. */
export function coalesce<T>() {
  /** The runs that callers can join. */
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

/** Creates a function whose callers share the next run of `work`, which starts after their call. One run at a time. */
export function nextRun<T>(work: () => Promise<T>): () => Promise<T> {
  const runs = coalesce<T>()
  const runExclusive = createKeyedMutex()
  let next = 0
  const run = () => {
    next += 1
    return work()
  }
  return () => runs(`${next}`, () => runExclusive('', run))
}

/**
 * Awaits a promise; when the signal aborts first, calls `left` and rejects with the signal's reason. The work itself
 * continues unless `left` aborts it.
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
