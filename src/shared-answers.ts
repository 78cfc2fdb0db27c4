/** Answers questions in fair slots. Those who wait for the answer to the same question at the same time share one. */
import type { FairSlots } from './fair-slots.ts'
import { unlessGone } from './unless-gone.ts'

export interface SharedAnswers<Answer> {
  /**
   * The answer to a question. `key`: the same for the same question. `client`: whose question it is. An answer that was
   * begun before is not shared: it may be older than what this client knows.
   *
   * `gone`: aborted when this one waits no longer. A client of whom nobody waits leaves its place in the line. When
   * nobody at all waits any more, the signal that `answer` got is aborted.
   * @throws SlotsFull when too many wait, the reason of `gone`, and what `answer` throws
   */
  ask(
    key: string,
    client: string,
    answer: (unwanted: AbortSignal) => Promise<Answer>,
    gone?: AbortSignal,
  ): Promise<Answer>
}

/** The place of one client in the line. */
interface Place<Answer> {
  answer: Promise<Answer>
  /** How many wait at it: they have asked the same and are not gone. */
  waiting: number
  /** Aborted when it needs no slot any more. */
  leave: AbortController
}

/** A question whose answer nobody has begun, or that somebody waits for. */
interface Question<Answer> {
  /** By client: each waits in its own turn, so that nobody waits for what another one has asked before. */
  places: Map<string, Place<Answer>>
  /** Begun in the turn of the client that came first. Then the others need no slots. */
  answer: Promise<Answer> | undefined
  unwanted: AbortController
}

export function sharedAnswers<Answer>(slots: FairSlots): SharedAnswers<Answer> {
  /** Those that nobody has begun. */
  const questions = new Map<string, Question<Answer>>()

  function forget(key: string, question: Question<Answer>): void {
    if (questions.get(key) === question) questions.delete(key)
  }

  /** Gives a place up. A question without places is nobody's. */
  function giveUp(key: string, question: Question<Answer>, client: string, reason: unknown): void {
    question.places.get(client)?.leave.abort(reason)
    question.places.delete(client)
    if (question.places.size > 0) return
    forget(key, question)
    question.unwanted.abort(reason)
  }

  async function inTurn(
    question: Question<Answer>,
    client: string,
    leave: AbortSignal,
    begin: () => Promise<Answer>,
  ): Promise<Answer> {
    let release: (() => void) | undefined
    try {
      release = await slots.take(client, leave)
      question.answer ??= begin()
      for (const place of question.places.values()) place.leave.abort()
      return await question.answer
    } catch (error) {
      if (question.answer === undefined) throw error
      return await question.answer
    } finally {
      release?.()
    }
  }

  function newPlace(
    key: string,
    question: Question<Answer>,
    client: string,
    answer: (unwanted: AbortSignal) => Promise<Answer>,
  ): Place<Answer> {
    const leave = new AbortController()
    const begin = () => {
      forget(key, question)
      return answer(question.unwanted.signal)
    }
    const place = { answer: inTurn(question, client, leave.signal, begin), waiting: 0, leave }
    question.places.set(client, place)
    // Who was refused asks again for a new place.
    place.answer.catch((error: unknown) => {
      if (question.places.get(client) === place) giveUp(key, question, client, error)
    })
    return place
  }

  return {
    async ask(key, client, answer, gone) {
      gone?.throwIfAborted()
      const question = questions.get(key) ?? {
        places: new Map<string, Place<Answer>>(),
        answer: undefined,
        unwanted: new AbortController(),
      }
      questions.set(key, question)
      const known = question.places.get(client)
      const place = known ?? newPlace(key, question, client, answer)
      place.waiting += 1
      return await unlessGone(place.answer, gone, () => {
        place.waiting -= 1
        if (place.waiting === 0) giveUp(key, question, client, gone?.reason)
      })
    },
  }
}
