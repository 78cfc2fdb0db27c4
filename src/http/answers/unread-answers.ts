/**
 * Bounds the answers that wait until their clients read them: in bytes, for each network and for all. A client that
 * reads nothing for a while is disconnected.
 */
import type { Socket } from 'node:net'
import { finished, Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { type BudgetLimits, createBudget } from '../../concurrency/budget.ts'
import { networkOf } from '../../config/address-ranges.ts'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { heldBytes } from './json-answer.ts'

export interface UnreadLimits extends BudgetLimits {
  /** A client that reads nothing for this long is disconnected, in milliseconds. */
  timeoutMs: number
}

interface Answer {
  network: string
  socket: Socket
  /** Bytes of the connection that the system had taken at the last check. */
  sent: number
  /** How many checks in succession have found that it took nothing more. */
  still: number
  /** Gives its share back. */
  give: () => void
}

/** Smaller answers are not counted: the system takes them at once, and connections are limited in number. */
export const COUNTED_FROM = 8 * 1024
/** What a stream holds that is made while the client reads it. */
const STREAM = 16 * 1024
/** What compressing an answer holds, see `compression.ts`. */
const COMPRESSION = 160 * 1024
const CHECK_MS = 1000
/** When there is no room, an answer that did not move for this many checks loses its place. */
const STALLED = 3

/** Counts the answers of all routes that are registered after this call. Returns what says how many bytes are unread. */
export function limitUnreadAnswers(
  app: FastifyInstance,
  { timeoutMs, ...limits }: UnreadLimits,
): () => number {
  const shares = createBudget(limits)
  // Checks are counted, not milliseconds: when the event loop was held up, nobody could read.
  const checkMs = Math.min(CHECK_MS, timeoutMs / STALLED)
  const patience = Math.ceil(timeoutMs / checkMs)
  // In the order of their beginning.
  const answers = new Set<Answer>()
  let checking: NodeJS.Timeout | undefined

  function remove(answer: Answer): void {
    answer.give()
    answers.delete(answer)
  }

  function check(): void {
    for (const answer of answers) {
      const { socket } = answer
      const sent = socket.bytesWritten - socket.writableLength
      const moves = sent !== answer.sent || socket.writableLength === 0
      answer.still = moves ? 0 : answer.still + 1
      answer.sent = sent
      if (answer.still < patience) continue
      limitReached('unread_time')
      socket.destroy()
    }
    if (answers.size > 0) return
    clearInterval(checking)
    checking = undefined
  }

  /** Disconnects clients that do not read until there is room. Returns who holds too much when there is none. */
  function makeRoom(network: string, bytes: number): 'network' | 'all' | undefined {
    for (const answer of answers) {
      const lacking = shares.lacking(network, bytes)
      if (lacking === undefined) return undefined
      const loser = lacking === 'network' ? network : shares.largest()
      if (answer.network !== loser || answer.still < STALLED) continue
      remove(answer)
      limitReached('unread_bytes')
      answer.socket.destroy()
    }
    return shares.lacking(network, bytes)
  }

  app.addHook('onSend', (request, reply, payload, done) => {
    const size = bytesOf(payload)
    if (size < COUNTED_FROM) return done(null, payload)
    const bytes = size + (request.headers['accept-encoding'] === undefined ? 0 : COMPRESSION)
    const network = networkOf(request.ip)
    const lacking = makeRoom(network, bytes)
    if (lacking !== undefined) {
      limitReached('unread_bytes')
      if (payload instanceof Readable) payload.destroy()
      const reason = 'too many answers wait until they are read; read them, and try again'
      const kind = lacking === 'network' ? 'tooManyRequests' : 'unavailable'
      return done(new Refused(refuse[kind](reason)))
    }
    const { socket } = request.raw
    const give = shares.take(network, bytes)
    const answer = { network, socket, sent: socket.bytesWritten, still: 0, give }
    answers.add(answer)
    finished(reply.raw, () => remove(answer))
    checking ??= setInterval(check, checkMs).unref()
    done(null, payload)
  })
  app.addHook('onClose', async () => clearInterval(checking))
  return shares.held
}

function bytesOf(payload: unknown): number {
  if (typeof payload === 'string' || Buffer.isBuffer(payload)) return payload.length
  return payload instanceof Readable ? (heldBytes(payload) ?? STREAM) : 0
}
