/** Answers questions in fair slots. Those who wait for the answer to the same question at the same time share one. */
import type { FairSlots } from './fair-slots.ts'

export interface SharedAnswers<Answer> {
  /**
   * The answer to a question. `key`: the same for the same question. `client`: whose question it is. An answer that was
   * begun before is not shared: it may be older than what this client knows.
   * @throws SlotsFull when too many wait, and what `answer` throws
   */
  ask(key: string, client: string, answer: () => Promise<Answer>): Promise<Answer>
}

/** A question whose answer nobody has begun. */
interface Question<Answer> {
  /** By client: each waits in its own turn, so that nobody waits for what another one has asked before. */
  clients: Map<string, Promise<Answer>>
  /** Begun in the turn of the client that came first. Then the others need no slots, and their waiting is aborted. */
  answer: Promise<Answer> | undefined
  begun: AbortController
}

export function sharedAnswers<Answer>(slots: FairSlots): SharedAnswers<Answer> {
  const questions = new Map<string, Question<Answer>>()

  async function inTurn(
    key: string,
    question: Question<Answer>,
    client: string,
    answer: () => Promise<Answer>,
  ): Promise<Answer> {
    let release: (() => void) | undefined
    try {
      release = await slots.take(client, question.begun.signal)
      if (question.answer === undefined) {
        questions.delete(key)
        question.answer = answer()
      }
      question.begun.abort()
      return await question.answer
    } catch (error) {
      question.clients.delete(client)
      if (question.answer !== undefined) return await question.answer
      if (question.clients.size === 0) questions.delete(key)
      throw error
    } finally {
      release?.()
    }
  }

  return {
    ask(key, client, answer) {
      const question = questions.get(key) ?? {
        clients: new Map(),
        answer: undefined,
        begun: new AbortController(),
      }
      questions.set(key, question)
      const known = question.clients.get(client)
      if (known !== undefined) return known
      const waiting = inTurn(key, question, client, answer)
      question.clients.set(client, waiting)
      return waiting
    },
  }
}
