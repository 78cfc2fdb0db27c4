/**
 * Coalesces equal requests that wait for fair slots. Each client waits in its own queue, so requests of other clients do
 * not delay it. The first client that gets a slot starts the work for all clients that wait for it; the other clients then
 * need no slot. A run that started before a request is not shared: its result may be older than the client's own writes.
 */

import { coalesce } from './coalesce.ts'
import type { Semaphore } from './semaphore.ts'

/** A request whose run has not started, or that clients still wait for. */
interface SharedRun<T> {
  id: number
  /** The number of waiting clients. */
  clients: number
  answer?: Promise<T>
  begun: AbortController
  unwanted: AbortController
}

/**
 * Creates a function that coalesces requests. Equal requests have the same `key`. `client` is the key of the semaphore.
 * `gone` is the caller's abort signal. When the last caller has left, the signal passed to `answer` is aborted.
 * @throws SlotsFull when the queue is full, the reason of `gone`, or the error of `answer`
 */
export function coalesceWithSlots<T>(slots: Semaphore) {
  /** Requests whose run has not started. */
  const pending = new Map<string, SharedRun<T>>()
  const byClient = coalesce<T>()
  let ids = 0

  function joinRun(key: string): SharedRun<T> {
    const existing = pending.get(key)
    if (existing !== undefined) return existing
    const run = { id: ids++, clients: 0, begun: new AbortController(), unwanted: new AbortController() }
    pending.set(key, run)
    run.begun.signal.addEventListener('abort', () => pending.delete(key))
    return run
  }

  return async (
    key: string,
    client: string,
    answer: (unwanted: AbortSignal) => Promise<T>,
    gone?: AbortSignal,
  ): Promise<T> => {
    gone?.throwIfAborted()
    const run = joinRun(key)
    const { begun, unwanted } = run

    async function answerInSlot(leave: AbortSignal): Promise<T> {
      run.clients += 1
      const left = () => {
        run.clients -= 1
        if (run.clients > 0) return
        begun.abort()
        unwanted.abort(leave.reason)
      }
      leave.addEventListener('abort', left, { once: true })
      let release: (() => void) | undefined
      try {
        release = await slots.take(client, AbortSignal.any([leave, begun.signal]))
        run.answer ??= answer(unwanted.signal)
        begun.abort()
        return await run.answer
      } catch (error) {
        if (run.answer !== undefined) return await run.answer
        if (!leave.aborted) left()
        leave.removeEventListener('abort', left)
        throw error
      } finally {
        release?.()
      }
    }
    return await byClient(`${run.id} ${client}`, answerInSlot, gone)
  }
}
