/**
 * Limits the bytes of unread answers, per network and in total. A client that reads nothing for a while is
 * disconnected.
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
  /** Time without reads after which a client is disconnected, in milliseconds. */
  timeoutMs: number
}

interface Answer {
  network: string
  socket: Socket
  /** Bytes of the connection that the system had taken at the last check. */
  sent: number
  /** Number of consecutive checks without progress. */
  still: number
  /** Gives its share back. */
  release: () => void
}

/** Minimum size of a counted answer, in bytes. The system buffers smaller ones. */
export const COUNTED_FROM = 8 * 1024
/** Memory of a streamed answer, in bytes. */
const STREAM = 16 * 1024
/** Memory of compressing an answer, in bytes; see `compression.ts`. */
const COMPRESSION = 160 * 1024
const CHECK_MS = 1000
/** Number of checks without progress after which an answer may be evicted. */
const STALLED = 3

/**
 * Counts the answers of all routes that are registered after this call. Returns a function that returns the unread
 * bytes.
 */
export function limitUnreadBytes(app: FastifyInstance, { timeoutMs, ...limits }: UnreadLimits): () => number {
  const shares = createBudget(limits)
  // Counts checks, not milliseconds: while the event loop was blocked, no client could read.
  const checkMs = Math.min(CHECK_MS, timeoutMs / STALLED)
  const patience = Math.ceil(timeoutMs / checkMs)
  // The oldest first.
  const answers = new Set<Answer>()
  let checking: NodeJS.Timeout | undefined

  function remove(answer: Answer): void {
    answer.release()
    answers.delete(answer)
  }

  function check(): void {
    for (const answer of answers) {
      const { socket } = answer
      const sent = socket.bytesWritten - socket.writableLength
      const hasProgress = sent !== answer.sent || socket.writableLength === 0
      answer.still = hasProgress ? 0 : answer.still + 1
      answer.sent = sent
      if (answer.still < patience) continue
      limitReached('unread_time')
      socket.destroy()
    }
    if (answers.size > 0) return
    clearInterval(checking)
    checking = undefined
  }

  /** Evicts stalled clients to free bytes. Returns the exceeded limit when that is not enough. */
  function evictStalled(network: string, bytes: number): 'network' | 'all' | undefined {
    for (const answer of answers) {
      const lacking = shares.lacking(network, bytes)
      if (lacking === undefined) return undefined
      const victim = lacking === 'network' ? network : shares.largest()
      if (answer.network !== victim || answer.still < STALLED) continue
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
    const lacking = evictStalled(network, bytes)
    if (lacking !== undefined) {
      limitReached('unread_bytes')
      if (payload instanceof Readable) payload.destroy()
      const reason = 'too many answers are unread; read them, and try again'
      const kind = lacking === 'network' ? 'tooManyRequests' : 'unavailable'
      return done(new Refused(refuse[kind](reason)))
    }
    const { socket } = request.raw
    const release = shares.take(network, bytes)
    const answer = { network, socket, sent: socket.bytesWritten, still: 0, release }
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
