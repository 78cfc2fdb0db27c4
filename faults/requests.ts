/**
 * The requests of the clients of a load. A request without an answer is retried with the same idempotency key. After
 * each answer the client checks another node, which must show the change.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Answer, type Client, type Json, jsonOf, type Look, type Options } from './client.ts'
import type { Ledger } from './ledger.ts'

/** Pause after a failed request, in milliseconds. */
const PAUSE_MS = 200
/** Maximum time of retries of a request, in milliseconds. */
const TIMEOUT_MS = 180_000
/**
 * Statuses that a retry may change: timeout, rate limit, conflict. The name of a claim whose holder was killed is in
 * conflict until its grace period ends.
 */
const RETRIED = new Set([408, 409, 429])

export interface Sender {
  client: Client
  ledger: Ledger
}

/** The requests of a client, each retried until it has an answer. */
export function requests({ client, ledger }: Sender) {
  async function look(writer: string | undefined, at: Look): Promise<void> {
    ledger.looks += 1
    const problem = await client.problemAt(at, writer)
    if (problem !== undefined) ledger.problems.add(problem)
  }

  /** Retries. `isDone` may accept the refusal of a retried request: an earlier attempt has succeeded then. */
  async function write(
    method: string,
    path: string,
    options: Options,
    lookAt?: (created: Json) => Look,
    isDone: (answer: Answer) => boolean | Promise<boolean> = () => false,
  ): Promise<Json | undefined> {
    const end = performance.now() + TIMEOUT_MS
    let last = ''
    for (let attempt = 1; performance.now() < end; attempt++) {
      const answer = await client.request(method, path, options)
      if (answer !== undefined && (answer.status < 300 || (attempt > 1 && (await isDone(answer))))) {
        const created = jsonOf(answer.status < 300 ? answer.text : '')
        if (answer.isLagging) ledger.lagging += 1
        else if (lookAt !== undefined) await look(answer.node, lookAt(created))
        return created
      }
      ledger.repeated += 1
      const status = answer?.status ?? 0
      last = `${method} ${path} at node ${answer?.node ?? 1}: ${status} ${answer?.text.slice(0, 300)}`
      if (status === 500) ledger.problems.add(last)
      const isRefused = status >= 400 && status < 500 && !RETRIED.has(status)
      if (isRefused) {
        ledger.problems.add(`refused: ${last}`)
        return undefined
      }
      await delay(PAUSE_MS)
    }
    ledger.problems.add(`no answer in ${TIMEOUT_MS / 1000} s: ${last}`)
    return undefined
  }

  async function push(branch: string): Promise<boolean> {
    const end = performance.now() + TIMEOUT_MS
    while (performance.now() < end) {
      const { isDone, isWrite, isLagging, node } = await client.push(branch)
      const sha = ledger.pushes.get(branch) ?? ''
      if (isDone && isLagging) ledger.lagging += 1
      else if (isWrite) {
        // Without a change to push, the interrupted push may not be in the log yet; the checks cover it.
        await look(node, { path: `${client.path}/branches/${branch}`, isShown: shows(sha) })
      }
      if (isDone) return true
      ledger.repeated += 1
      await delay(PAUSE_MS)
    }
    ledger.problems.add(`no answer: the push of ${branch} in ${TIMEOUT_MS / 1000} s`)
    return false
  }

  return { write, push }
}

/** Whether an answer is 2xx and contains all of these texts. */
export const shows =
  (...texts: string[]) =>
  ({ status, text }: Answer) =>
    status === 200 && texts.every((one) => text.includes(one))

export const isGone = ({ status }: Answer) => status === 404
