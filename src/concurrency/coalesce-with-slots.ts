/**
 * Coalesces equal questions that wait for fair slots. Each client waits in its own queue, so earlier questions of another
 * client do not delay it. The first client that gets a slot starts the answer for all clients that wait for it; the others
 * need no slot then. An answer that started before a question is not shared: it may be older than the client's own writes.
 */

import { coalesce } from './coalesce.ts'
import type { Semaphore } from './semaphore.ts'

/** A question whose answer has not started, or for which clients still wait. */
interface Question<T> {
  id: number
  /** How many clients wait. */
  clients: number
  answer?: Promise<T>
  begun: AbortController
  unwanted: AbortController
}

/**
 * Makes a function that answers questions. `key`: the same for the same question. `client`: whose question it is. `gone`:
 * aborted when this one waits no longer. When nobody waits for an answer any more, the signal that `answer` got is aborted.
 * @throws SlotsFull when too many wait, the reason of `gone`, and what `answer` throws
 */
export function coalesceWithSlots<T>(slots: Semaphore) {
  /** The questions whose answers have not started. */
  const questions = new Map<string, Question<T>>()
  const places = coalesce<T>()
  let ids = 0

  function ask(key: string): Question<T> {
    const asked = questions.get(key)
    if (asked !== undefined) return asked
    const question = { id: ids++, clients: 0, begun: new AbortController(), unwanted: new AbortController() }
    questions.set(key, question)
    question.begun.signal.addEventListener('abort', () => questions.delete(key))
    return question
  }

  return async (
    key: string,
    client: string,
    answer: (unwanted: AbortSignal) => Promise<T>,
    gone?: AbortSignal,
  ): Promise<T> => {
    gone?.throwIfAborted()
    const question = ask(key)
    const { begun, unwanted } = question

    async function inTurn(leave: AbortSignal): Promise<T> {
      question.clients += 1
      const left = () => {
        question.clients -= 1
        if (question.clients > 0) return
        begun.abort()
        unwanted.abort(leave.reason)
      }
      leave.addEventListener('abort', left, { once: true })
      let release: (() => void) | undefined
      try {
        release = await slots.take(client, AbortSignal.any([leave, begun.signal]))
        question.answer ??= answer(unwanted.signal)
        begun.abort()
        return await question.answer
      } catch (error) {
        if (question.answer !== undefined) return await question.answer
        if (!leave.aborted) left()
        leave.removeEventListener('abort', left)
        throw error
      } finally {
        release?.()
      }
    }
    return await places(`${question.id} ${client}`, inTurn, gone)
  }
}
