/**
 * Server-sent events, as a browser's `EventSource` reads them. It reconnects automatically, and sends the id of its
 * last event in `Last-Event-ID`.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Refused, refuse } from '../../errors/refusal.ts'
import { sendStreamedText } from './streamed-text.ts'

export interface StreamedEvent {
  /** Each event has a larger id than the one before it. */
  id: number
  /** JSON text without line breaks. */
  data: string
}

/** Pause of the client before it reconnects, in milliseconds. */
const RETRY_MS = 2000

/**
 * Sends events as they arrive. An empty batch becomes a comment, which keeps the connection open and detects a broken
 * one. The connection ends with the batches.
 */
export function sendEventStream(
  request: FastifyRequest,
  reply: FastifyReply,
  batches: () => AsyncIterable<readonly StreamedEvent[]>,
  ending: AbortSignal,
): void {
  // `no-store`: proxies must not cache the stream. `X-Accel-Buffering`: nginx must not buffer it.
  reply.headers({ 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' })
  sendStreamedText(request, reply, 'text/event-stream; charset=utf-8', () => framesOf(batches()), ending)
}

async function* framesOf(batches: AsyncIterable<readonly StreamedEvent[]>): AsyncGenerator<string> {
  // Send something immediately, so that the client gets the headers before the first event.
  yield `retry: ${RETRY_MS}\n\n`
  for await (const batch of batches) {
    yield batch.length === 0 ? ':\n\n' : batch.map(({ id, data }) => `id: ${id}\ndata: ${data}\n\n`).join('')
  }
}

/** Requested start: after the event with this id, at the first event, or with new events only. */
export type Beginning = number | 'first' | 'now'

/**
 * Reads the beginning from `Last-Event-ID`, or else from the query's `after`. The header wins, because a client that
 * reconnects repeats the query of its first request.
 *
 * @throws Refused (unprocessable) when it is not an id
 */
export function requestedBeginning(request: FastifyRequest, after: string | undefined): Beginning {
  const last = lastEventId(request)
  if (last) return idIn('Last-Event-ID', last)
  if (!after) return 'first'
  return after === 'now' ? after : idIn('after', after)
}

/**
 * Checks that the log has the event after which the client starts. After a restore from a backup, the log may end
 * before it, and the client would miss new events with the same ids. @param last returns the id of the last event, -1
 * without one
 * @throws Refused (unprocessable) for an unknown id
 */
export async function requireExistingBeginning(
  request: FastifyRequest,
  beginning: Beginning,
  last: () => Promise<number>,
): Promise<void> {
  if (typeof beginning !== 'number') return
  const end = await last()
  if (beginning <= end) return
  const field = lastEventId(request) ? 'Last-Event-ID' : 'after'
  const reason = `${field}: there is no such event; ${end < 0 ? 'there are none yet' : `the last is ${end}`}`
  throw new Refused(refuse.unprocessable(reason, [reason]))
}

function lastEventId({ headers }: FastifyRequest): string | undefined {
  const header = headers['last-event-id']
  return Array.isArray(header) ? header.join() : header
}

function idIn(field: string, text: string): number {
  const id = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(id)) return id
  const reason = `${field}: must be the id of an event${field === 'after' ? ', or now' : ''}`
  throw new Refused(refuse.unprocessable(reason, [reason]))
}
