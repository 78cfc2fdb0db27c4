/**
 * Server-sent events, as a browser's `EventSource` reads them: it connects again by itself, and then says in
 * `Last-Event-ID` where it was.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Refused, refuse } from '../refusal.ts'
import { sendStreamedText } from './streamed-text.ts'

export interface StreamedEvent {
  /** Grows from event to event. */
  id: number
  /** JSON text: one line. */
  data: string
}

/** How long a client waits before it connects again, in milliseconds. */
const RETRY_MS = 2000

/**
 * Sends events as they come. An empty batch becomes a comment: it keeps the connection open, and finds out
 * whether it still is. The end of the batches is the end of the connection.
 */
export function sendEventStream(
  request: FastifyRequest,
  reply: FastifyReply,
  batches: () => AsyncIterable<readonly StreamedEvent[]>,
  ending: AbortSignal,
): void {
  // `no-store`: nobody between may keep it. `X-Accel-Buffering`: nginx must not hold back what is small.
  reply.headers({ 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' })
  sendStreamedText(request, reply, 'text/event-stream; charset=utf-8', () => framesOf(batches()), ending)
}

async function* framesOf(batches: AsyncIterable<readonly StreamedEvent[]>): AsyncGenerator<string> {
  // At once, so that the client sees the headers before something happens.
  yield `retry: ${RETRY_MS}\n\n`
  for await (const batch of batches) {
    yield batch.length === 0 ? ':\n\n' : batch.map(({ id, data }) => `id: ${id}\ndata: ${data}\n\n`).join('')
  }
}

/** Where a client wants to begin: behind the event with an id, at the beginning, or with what comes. */
export type Beginning = number | 'first' | 'now'

/**
 * What `Last-Event-ID` says, or else the query's `after`: a client that connects again has the query of its
 * first request. @throws Refused (unprocessable) when it is no id
 */
export function beginningOf(request: FastifyRequest, after: string | undefined): Beginning {
  const last = lastEventId(request)
  if (last) return idIn('Last-Event-ID', last)
  if (!after) return 'first'
  return after === 'now' ? after : idIn('after', after)
}

/**
 * A client that was told more than there is now (a backup was restored) would otherwise wait in silence while events
 * with the ids that it knows come. `last`: the id of the last event, -1 when there is none.
 * @throws Refused (unprocessable) when there is no such event yet
 */
export async function checkBeginning(
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
